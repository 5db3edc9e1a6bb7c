package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/replace"
	"github.com/pgmesh/pgmesh/mesh-agent/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/locality"
	"github.com/pgmesh/pgmesh/mesh-agent/register"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// registration is what flags and the file say of how this machine is registered.
type registration struct {
	groups    []string
	weight    uint32
	metadata  string
	allowExec bool
	file      *configFlag // which has the services
}

func (r *registration) declare(flags *pflag.FlagSet, o *bootstrap.Options) {
	flags.StringSliceVar(&r.groups, "group", nil,
		"WorkloadGroup that describes what runs on this machine, of its namespace (default: the one that its join token was for); several for several services")
	flags.StringVar(&o.Locality, "locality", "", "where this machine is: REGION, REGION/ZONE or REGION/ZONE/SUBZONE (default: as --metadata-file says)")
	flags.StringVar(&o.Network, "network", "", "network of this machine, in a mesh of several that do not reach each other")
	flags.Uint32Var(&r.weight, "weight", 0, "how many requests this machine is sent, in proportion to the others of its group; 0: as the group says")
	flags.StringVar(&r.metadata, "metadata-file", "",
		"JSON file in which the cloud says where this machine is: an AWS instance identity document, or the metadata of a GCP or Azure instance (default: "+locality.CloudInit+", if it is there)")
	flags.BoolVar(&r.allowExec, "allow-exec-probes", false, "run commands that a WorkloadGroup asks for to probe a service; those of this machine's own file run always")
}

// groupFile is the file with the WorkloadGroup that a machine joined for.
func (f *stateFlags) groupFile() string { return filepath.Join(f.folder, "group") }

// rememberGroup keeps it, or that there is none.
func (f *stateFlags) rememberGroup(group string) error {
	if group != "" {
		return replace.File(f.groupFile(), []byte(group+"\n"))
	}
	if err := os.Remove(f.groupFile()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (f *stateFlags) recallGroup() string {
	content, _ := os.ReadFile(f.groupFile()) // there need be none
	return strings.TrimSpace(string(content))
}

// services are those of the file, those of the groups that flags name, and, if nobody says anything, that of the group that the machine joined for.
func (m *member) services() []register.Service {
	var all []register.Service
	if f := m.registration.file; f != nil && f.file != nil {
		for _, s := range f.file.Services {
			made := register.Service{Group: s.Group, Ports: s.Ports, Labels: s.Labels, Weight: cmp.Or(s.Weight, m.registration.weight), Readiness: s.Readiness}
			if s.Liveness != nil {
				made.Liveness, made.Action = s.Liveness.Probe, s.Liveness.Action
			}
			all = append(all, made)
		}
	}
	groups := m.registration.groups
	if joined := m.state.recallGroup(); len(groups) == 0 && len(all) == 0 && joined != "" {
		groups = []string{joined}
	}
	for _, group := range groups {
		if !slices.ContainsFunc(all, func(s register.Service) bool { return s.Group == group }) {
			all = append(all, register.Service{Group: group, Weight: m.registration.weight})
		}
	}
	return all
}

// place completes what the proxy says of where it is, and of what runs beside it.
func (m *member) place(o *bootstrap.Options) error {
	for _, group := range m.registration.groups {
		if strings.Contains(group, "/") {
			return fmt.Errorf("--group %s: write the name alone; its namespace is that of the machine", group)
		}
	}
	if o.Locality == "" {
		found, err := locality.Of(m.registration.metadata)
		if err != nil {
			return fmt.Errorf("--metadata-file: %w", err)
		}
		o.Locality = found
	}
	labels := maps.Clone(o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, s := range slices.Backward(m.services()) { // of the first of them, where several say something
		maps.Copy(labels, s.Labels)
	}
	for name, value := range m.said.GetLabels() { // of the groups
		if _, own := labels[name]; !own {
			labels[name] = value
		}
	}
	o.Labels = labels
	o.Network, o.Locality = cmp.Or(o.Network, m.said.GetNetwork()), cmp.Or(o.Locality, m.said.GetLocality())
	return nil
}

// registering has the machine's services registered. It is nil where there are none.
func (m *member) registering(who *machine, discovery grpc.ClientConnInterface, about *status.Server, log *slog.Logger, metrics prometheus.Registerer) (*register.Agent, error) {
	services := m.services()
	if len(services) == 0 {
		return nil, nil //nolint:nilnil // the machine has clients alone
	}
	o, err := m.complete(who)
	if err != nil {
		return nil, err
	}
	agent := register.New(register.Options{
		Discovery: discovery, Folder: m.state.folder, Services: services, AllowExec: m.registration.allowExec, Log: log, Metrics: metrics,
		Machine: &machinev1.Machine{
			Id: o.ID, Namespace: o.Namespace, ServiceAccount: o.ServiceAccount, Address: o.IP, Network: o.Network, Locality: o.Locality, Labels: m.options.Labels,
		},
	})
	about.Parts.Registration, about.Leave = agent.Status, agent.Leave
	return agent, nil
}

// leaveWithin is how long Envoy waits to drain for the machine to have left: until then others go on sending requests.
const leaveWithin = 5 * time.Second

// stay keeps the machine registered, and returns the context that Envoy runs by: it ends when the machine is to end, and has left.
func stay(ctx, lasting context.Context, group *errgroup.Group, agent *register.Agent, log *slog.Logger) context.Context {
	if agent == nil {
		return ctx
	}
	group.Go(func() error {
		if err := agent.Run(lasting); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	staying, end := context.WithCancel(lasting)
	context.AfterFunc(ctx, func() {
		defer end()
		bounded, cancel := context.WithTimeout(lasting, leaveWithin)
		defer cancel()
		known := agent.Registered()
		switch err := agent.Leave(bounded); {
		case err != nil && known:
			log.Warn("this machine ends, and may still be sent requests for a while", "error", err)
		case err == nil:
			log.Info("this machine has left: nobody sends it requests any more")
		}
	})
	return staying
}
