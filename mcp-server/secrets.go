package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-server/identity/authority"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/resources"
	"github.com/pgmesh/pgmesh/store/secrets"
)

func secretsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "secrets", Short: "Make keys that encrypt secrets, and encrypt what is in the database"}
	cmd.AddCommand(secretsKeyCommand(), secretsSealCommand())
	return cmd
}

func secretsKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print a new key for --secrets-key-file", Args: cobra.NoArgs,
		Example: `  (umask 077; mcp-server secrets key > secrets.key)`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), seal.NewLine())
			return err
		},
	}
}

func secretsSealCommand() *cobra.Command {
	var database string
	var sealing seal.Options
	cmd := &cobra.Command{
		Use: "seal", Short: "Encrypt what is not encrypted yet with the first key", Args: cobra.NoArgs,
		Long: `Encrypt with the first key what is not yet: what was written with psql, or before there was a key, and what an older key
encrypted. It is one revision; what clients are served stays the same. Old values stay in old files of the database until it is vacuumed,
and in backups.`,
		Example: `  mcp-server secrets seal --database "$DATABASE" --secrets-key-file secrets.key`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withKeys(cmd, database, sealing, func(s *store.Store, keys *seal.Keys) error { return sealAll(cmd, s, keys) })
		},
	}
	needDatabase(cmd, &database)
	sealing.Flags(cmd.Flags())
	return cmd
}

// withKeys runs a function with the store and the keys for secrets, which are required.
func withKeys(cmd *cobra.Command, database string, from seal.Options, do func(*store.Store, *seal.Keys) error) error {
	return withStore(cmd, database, func(s *store.Store) error {
		keys, err := loadKeys(cmd, s, from)
		if err != nil {
			return err
		}
		return do(s, keys)
	})
}

// loadKeys loads the keys that flags name. It returns an error if there are none.
func loadKeys(cmd *cobra.Command, s *store.Store, from seal.Options) (*seal.Keys, error) {
	keys, err := from.Load()
	if err != nil {
		return nil, err
	}
	if keys == seal.None {
		return nil, seal.ErrNone
	}
	return keys, keys.Unlock(cmd.Context(), serve.SealingKeys{Store: s})
}

func sealAll(cmd *cobra.Command, s *store.Store, keys *seal.Keys) error {
	all, err := secrets.New(s).List(cmd.Context(), nil)
	if err != nil {
		return err
	}
	change := resources.Apply{Message: "encrypt secrets"}
	for _, secret := range all {
		if !keys.Stale(secret.Data) {
			continue
		}
		data, err := keys.Read(secret.Namespace, secret.Name, secret.Data)
		if err != nil {
			return fmt.Errorf("%s: %w", secret, err)
		}
		spec, err := json.Marshal(map[string]any{
			"type": secret.Type, "data": keys.Store(secret.Namespace, secret.Name, data), "serviceAccounts": secret.ServiceAccounts,
		})
		if err != nil {
			return fmt.Errorf("encode %s: %w", secret, err)
		}
		change.Upserts = append(change.Upserts, resources.Upsert{Key: secret.Key(), Labels: secret.Labels, Spec: spec})
	}
	if len(change.Upserts) > 0 {
		if _, err := resources.New(s).Apply(cmd.Context(), change); err != nil {
			return err
		}
	}
	done, authorities, err := authority.Reseal(cmd.Context(), trust.New(s), keys)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "encrypted %d of %d secrets, and the keys of %d of %d authorities\n", len(change.Upserts), len(all), done, authorities)
	return err
}
