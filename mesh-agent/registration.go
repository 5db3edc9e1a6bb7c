package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/locality"
	"github.com/pgmesh/pgmesh/mesh-agent/host/register"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// registration has the flags and the file that say how this machine is registered.
type registration struct {
	groups    []string
	weight    uint32
	metadata  string
	allowExec bool
	file      *configFlag // the file with the services
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

// services returns those in the file, then those of the groups in flags, or else that of the group the
// machine joined for.
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
	if joined := m.state.Group(); len(groups) == 0 && len(all) == 0 && joined != "" {
		groups = []string{joined}
	}
	for _, group := range groups {
		if !slices.ContainsFunc(all, func(s register.Service) bool { return s.Group == group }) {
			all = append(all, register.Service{Group: group, Weight: m.registration.weight})
		}
	}
	return all
}

// addPlacement completes locality, network and labels from flags, the services, instance metadata and the
// mesh.
func (m *member) addPlacement(o *bootstrap.Options) error {
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
	for _, s := range slices.Backward(m.services()) { // the first service with a label wins
		maps.Copy(labels, s.Labels)
	}
	for name, value := range m.meshSettings.GetLabels() { // those of the groups
		if _, own := labels[name]; !own {
			labels[name] = value
		}
	}
	o.Labels = labels
	o.Network, o.Locality = cmp.Or(o.Network, m.meshSettings.GetNetwork()), cmp.Or(o.Locality, m.meshSettings.GetLocality())
	return nil
}

// openRegistration returns the agent that registers the machine's services, nil if there are none.
func (m *member) openRegistration(who *machine, discovery grpc.ClientConnInterface, server *status.Server, log *slog.Logger, metrics prometheus.Registerer) (*register.Agent, error) {
	services := m.services()
	if len(services) == 0 {
		return nil, nil //nolint:nilnil // the machine serves nothing
	}
	o, err := m.complete(who)
	if err != nil {
		return nil, err
	}
	agent := register.New(register.Options{
		Discovery: discovery, Folder: m.state.Path, Services: services, AllowExec: m.registration.allowExec, Log: log, Metrics: metrics,
		Machine: &machinev1.Machine{
			Id: o.ID, Namespace: o.Namespace, ServiceAccount: o.ServiceAccount, Address: o.IP, Network: o.Network, Locality: o.Locality, Labels: m.options.Labels,
		},
	})
	server.Parts.Registration, server.Leave = agent.Status, agent.Leave
	return agent, nil
}

// leaveTimeout is how long Envoy waits to drain until the machine has left; until then others still send
// requests.
const leaveTimeout = 5 * time.Second

// keepRegistered keeps the machine registered. The returned context is Envoy's: it ends when the machine
// has left after ctx ends.
func keepRegistered(ctx, serving context.Context, group *errgroup.Group, agent *register.Agent, log *slog.Logger) context.Context {
	if agent == nil {
		return ctx
	}
	group.Go(func() error {
		if err := agent.Run(serving); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	staying, end := context.WithCancel(serving)
	context.AfterFunc(ctx, func() {
		defer end()
		bounded, cancel := context.WithTimeout(serving, leaveTimeout)
		defer cancel()
		known := agent.Registered()
		switch err := agent.Leave(bounded); {
		case err != nil && known:
			log.Warn("this machine ends, but may still get requests for a while", "error", err)
		case err == nil:
			log.Info("this machine has left the mesh: it gets no more requests")
		}
	})
	return staying
}
