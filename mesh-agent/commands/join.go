package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/machine"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

const joinHelp = `Make this machine a member of the mesh: get its first certificate from discovery, and keep it.

A join token names the mesh's roots, so that it is told to nobody but the mesh. Its identity becomes the machine's: a namespace and a
service account. The key of the certificate is made here and never leaves the machine. Without --token-file the token is read from standard
input: at a terminal it is asked for, and does not show.

The mesh is asked whether another machine has this one's name by now, which is warned of: two agents under one name take each other's place again and
again. --id gives this one another name; --take-over is for a machine that replaces another.

An agent that runs takes up at once what its machine is from now on, without losing a request: a new certificate of the same identity as it is, and
another identity, group, name or discovery by starting anew within its process. If it cannot, the exit code is 1, and the last line says what makes it.

After this, mesh-agent run needs to be told nothing: it knows who the machine is and where discovery is, and renews the certificate.`

// joinFlags are the flags of join.
type joinFlags struct {
	state      statedir.Folder
	credential join.Credential
	servers    upstream.Servers
	again      bool
	id         string
	takeOver   bool
}

func joinCommand() *cobra.Command {
	j := joinFlags{credential: join.Credential{FromInput: true}}
	cmd := &cobra.Command{
		Use:   "join",
		Short: "Make this machine a member of the mesh",
		Long:  joinHelp,
		Example: `  mesh-agent join --server mesh.example:15012
  mesh-agent join --server mesh.example:15012 --token-file cart.token
  mesh-agent join --server mesh.example:15012 --token-file cart.token --id cart-2.shop
  ssh mesh mcp-client token create --group shop/cart | mesh-agent join --server mesh.example:15012`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			state, err := j.run(cmd.Context(), program.Log(cmd))
			if err != nil {
				return err
			}
			if !j.takeOver {
				m := machine.Machine{State: j.state, Discovery: j.servers}
				m.WarnOfNamesakes(cmd.Context(), program.Log(cmd))
			}
			said, notTaken := takeUp(cmd.Context(), j.state.Path, state)
			if said == "" {
				said = "mesh-agent run renews that in time"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "this machine is %s, until %s; %s\n", state.ID, state.NotAfter().UTC().Format(time.RFC3339), said)
			return errors.Join(err, notTaken)
		},
	}
	j.servers.Flags(cmd.Flags(), "server", "addresses of discovery, host or host:port, such as discovery.example (required; the port is "+jointoken.Port+" if none is given); with several, any that answers")
	cmd.Flags().BoolVar(&j.again, "again", false, "join although this machine is a member already; what it was is given up")
	cmd.Flags().StringVar(&j.id, "id", "", "name of this machine's proxy, unique in the mesh, which mesh-agent run then has (default: HOSTNAME.NAMESPACE)")
	cmd.Flags().BoolVar(&j.takeOver, "take-over", false, "this machine takes the place of the one that has its name by now: do not warn of that")
	j.state.Flags(cmd.Flags())
	j.credential.Flags(cmd.Flags())
	return cmd
}

func (j *joinFlags) run(ctx context.Context, log *slog.Logger) (*membership.State, error) {
	j.servers.AssumePort(jointoken.Port)
	if err := j.servers.Check(); err != nil {
		return nil, err
	}
	joined, err := member.Join(ctx, &j.state, j.servers.Addresses, &j.credential, j.again, log)
	if err != nil {
		return nil, err
	}
	return joined, errors.Join(j.state.SaveID(j.id), statedir.Own(j.state.Path))
}
