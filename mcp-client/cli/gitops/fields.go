package gitops

import (
	"context"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// sayFields adds to each change the fields in which the mesh and the files differ. It reads the files again, so that a large
// repository need not be in memory. Where it cannot read something, the change has its name alone.
func (k *keeper) sayFields(ctx context.Context, would *change.Imported) {
	wanted := would.Reconfigured()
	if len(wanted) == 0 {
		return
	}
	from, paths, err := k.files()
	if err != nil {
		return
	}
	reading := &files.Reader{From: from, Namespace: k.Namespace.Name, Skipped: files.Skipped{}, Shown: files.NewProgress(k.Err, nil)}
	_ = reading.All(paths)(func(d *kinds.Document) error {
		if key := d.Resource.Key(); wanted[key] {
			if fields, err := k.fieldsOf(ctx, d.Resource); err == nil {
				would.SetFields(key, fields)
			}
		}
		return nil
	})
}

// fieldsOf lists the fields in which the mesh has a resource otherwise than a file.
func (k *keeper) fieldsOf(ctx context.Context, file *kinds.Resource) ([]string, error) {
	answer, err := session.Ask(ctx, k.Session, adminv1.AdminServiceClient.Get, &adminv1.GetRequest{Resource: connect.RefOf(file.Key())})
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(answer.GetResource())
	if err != nil {
		return nil, err
	}
	there, err := kinds.Parser{DefaultNamespace: file.Namespace}.Parse("", text)
	if err != nil {
		return nil, err
	}
	if len(there) != 1 {
		return nil, errors.New("the server has sent something else than a resource")
	}
	return output.ChangedFields(there[0].Resource, file)
}
