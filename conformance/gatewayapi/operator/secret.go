package operator

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secret gives the mesh a certificate of the cluster, for all gateways of its namespace. What the mesh
// refuses, because it is no certificate, is not there, as it would not be for the cluster's own.
func (o *Operator) secret(ctx context.Context, of types.NamespacedName) error {
	var s corev1.Secret
	err := o.client.Get(ctx, of, &s)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err == nil && s.Type != corev1.SecretTypeTLS {
		return nil
	}
	db, failed := pgx.Connect(ctx, o.Database)
	if failed != nil {
		return failed
	}
	defer db.Close(context.WithoutCancel(ctx))
	if refused := write(ctx, db, &s, of); refused != nil {
		o.t.Logf("the mesh does not have the secret %s: %v", of, refused)
	}
	return nil
}

// write makes the mesh's secret that of the cluster, or takes it away if there is none.
func write(ctx context.Context, db *pgx.Conn, s *corev1.Secret, of types.NamespacedName) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM mesh.secrets WHERE namespace = $1 AND name = $2", of.Namespace, of.Name); err != nil || s.Name == "" {
			return err
		}
		data, err := json.Marshal(s.Data)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO mesh.secrets (namespace, name, type, data, service_accounts) VALUES ($1, $2, $3, $4, '{*}')",
			s.Namespace, s.Name, s.Type, string(data))
		return err
	})
}
