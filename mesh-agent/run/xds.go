package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/standardmetrics"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sds"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
)

// openEnvoySocket listens on the socket at which Envoy gets its configuration and its secrets.
func (a *agent) openEnvoySocket() (net.Listener, error) {
	path, err := a.Machine.EnvoySocket()
	if err != nil {
		return nil, err
	}
	_ = os.RemoveAll(a.Machine.State.File("sds")) // where earlier versions had the socket
	socket, err := listen.Unix(path)
	if err != nil {
		return nil, err
	}
	account, err := a.Machine.EnvoyAccount()
	if err == nil {
		err = account.Own(path)
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return socket, nil
}

// lastGood opens the last good configuration. The owner has everything that configuration depends
// on, so a proxy that changed does not use an old one.
func (a *agent) lastGood() (*lastgood.Store, error) {
	o, err := a.Machine.Proxy(a.who)
	if err != nil {
		return nil, err
	}
	owner := []string{"id=" + o.ID, "ip=" + o.IP, "domain=" + o.Domain, "role=" + string(o.Role), "interception=" + string(o.Interception), "xds=" + string(o.XDS)}
	if a.who.Source == member.Insecure {
		owner = append(owner, "namespace="+o.Namespace, "service-account="+o.ServiceAccount)
	} else {
		owner = append(owner, "identity="+a.who.Workload.String())
	}
	for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
		owner = append(owner, "label "+label+"="+o.Labels[label])
	}
	return lastgood.Open(lastgood.Options{
		Folder: a.Machine.State.File("config"), Owner: strings.Join(owner, ", "), Secrets: a.Machine.KeepSecrets, Log: a.log,
	})
}

// openModules opens the modules of Wasm plugins. Those that the last good configuration names stay.
func (a *agent) openModules(kept *lastgood.Store) (*wasm.Modules, error) {
	account, err := a.Machine.EnvoyAccount()
	if err != nil {
		return nil, err
	}
	return wasm.Open(a.Wasm, wasm.Surroundings{
		Folder: a.Machine.State.File("wasm"), Own: account.Own, Log: a.log, Metrics: a.metrics,
		InUse: func() (files []string) {
			all, _ := kept.All(plugin.Type)
			for _, one := range all {
				files = append(files, plugin.File(one.Body))
			}
			return files
		},
	})
}

// serveEnvoy prepares to serve Envoy its configuration and secrets. The returned function runs
// until the context ends.
func (a *agent) serveEnvoy(ctx context.Context, o relay.Options) (run func() error, err error) {
	secrets := sds.New(a.log)
	proxy, err := a.Machine.Proxy(a.who)
	if err != nil {
		return nil, err
	}
	a.who.Call(standardmetrics.WorkloadOf(proxy.Labels, proxy.Namespace, "").Encode())
	current, err := a.who.Keep(ctx, secrets, a.discovery, a.log)
	if err != nil {
		return nil, err
	}
	if o.Kept, err = a.lastGood(); err != nil {
		return nil, err
	}
	if o.Modules, err = a.openModules(o.Kept); err != nil {
		return nil, err
	}
	socket, err := a.openEnvoySocket()
	if err != nil {
		return nil, err
	}
	config, server := relay.New(o), grpc.NewServer(append(panics.ServerOptions(), relay.ServerOption())...)
	config.Register(server)
	secrets.Register(server)
	a.server.Parts.XDS, a.server.Parts.Wasm = config.Report, o.Modules.Report
	return func() error {
		defer o.Kept.Close()
		defer o.Modules.Close()
		var group errgroup.Group
		group.Go(current)
		group.Go(func() error {
			defer context.AfterFunc(ctx, server.Stop)()
			if err := server.Serve(socket); err != nil && ctx.Err() == nil {
				return fmt.Errorf("serve Envoy: %w", err)
			}
			return nil
		})
		return group.Wait()
	}, nil
}
