package register

import (
	"context"
	"net/netip"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/kinds"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// What one machine may have at most. No honest machine needs more.
const (
	mostBytes    = 64 << 10
	mostServices = 64
	mostLabels   = 64
	mostPorts    = 64
	mostWeight   = 1 << 20
	mostText     = 253
	// mostDetail bounds what is said of an unhealthy service; people read it.
	mostDetail = 200
	// mostStreams bounds the streams of one enrolment. A machine needs one.
	mostStreams = 16
)

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}

func checkSize(r *machinev1.RegisterRequest) error {
	if size := proto.Size(r); size > mostBytes {
		return invalid("a message has %d bytes, and may have %d", size, mostBytes)
	}
	return nil
}

// judged returns a machine with its identity, if it may have that and can be registered.
func (s *Service) judged(ctx context.Context, m *machinev1.Machine) (*machinev1.Machine, error) {
	caller, err := s.cfg.Who(ctx)
	if err != nil {
		return nil, err
	}
	out := proto.CloneOf(m)
	if caller.proven() {
		if err := contradiction(caller, m.GetNamespace(), m.GetServiceAccount()); err != nil {
			return nil, err
		}
		out.Namespace, out.ServiceAccount = caller.Namespace, caller.ServiceAccount
	}
	return out, check(out)
}

// contradiction says what a machine claims against its certificate.
func contradiction(c *Caller, namespace, account string) error {
	if namespace != "" && namespace != c.Namespace || account != "" && account != c.ServiceAccount {
		return status.Errorf(codes.PermissionDenied, "the certificate is for the service account %s of the namespace %s, and the machine says that it is %.100q of %.100q: "+
			"start the agent with what its certificate says", c.ServiceAccount, c.Namespace, account, namespace)
	}
	return nil
}

// check says what in a machine's description no WorkloadEntry may have. It shortens what is too
// long to read.
func check(m *machinev1.Machine) error {
	switch {
	case m.GetId() == "" || len(m.GetId()) > mostText || strings.ContainsAny(m.GetId(), "~ \t\r\n"):
		return invalid("a machine's name, which is %.300q, has 1 to 253 characters, and no blanks or tildes (--id)", m.GetId())
	case !kinds.ValidNamespace(m.GetNamespace()):
		return invalid("there is no namespace %.100q", m.GetNamespace())
	case m.GetSince() <= 0:
		return invalid("it has to be said since when the machine registers")
	case len(m.GetLocality()) > mostText || strings.Count(m.GetLocality(), "/") > 2:
		return invalid("the machine is in %.300q: write REGION, REGION/ZONE or REGION/ZONE/SUBZONE (--locality)", m.GetLocality())
	case len(m.GetNetwork()) > mostText:
		return invalid("the name of the machine's network has %d characters, and may have %d (--network)", len(m.GetNetwork()), mostText)
	case len(m.GetServices()) > mostServices:
		return invalid("a machine may have %d services, and this one has %d", mostServices, len(m.GetServices()))
	}
	if _, err := netip.ParseAddr(m.GetAddress()); err != nil {
		return invalid("the address by which others reach the machine is %.100q, which is none: say it with --node-ip", m.GetAddress())
	}
	seen := map[string]bool{}
	for _, service := range m.GetServices() {
		if err := checkService(m, service); err != nil {
			return err
		}
		if seen[service.GetGroup()] {
			return invalid("the group %s is named twice", service.GetGroup())
		}
		seen[service.GetGroup()] = true
	}
	return nil
}

func checkService(m *machinev1.Machine, s *machinev1.Service) error {
	switch {
	case len(s.GetPorts()) > mostPorts:
		return invalid("the service of the group %.100q has %d ports, and may have %d", s.GetGroup(), len(s.GetPorts()), mostPorts)
	case len(m.GetLabels())+len(s.GetLabels()) > mostLabels:
		return invalid("the service of the group %.100q has %d labels with those of the machine, and may have %d", s.GetGroup(), len(m.GetLabels())+len(s.GetLabels()), mostLabels)
	case s.GetWeight() > mostWeight:
		return invalid("the service of the group %.100q has the weight %d, and may have %d", s.GetGroup(), s.GetWeight(), mostWeight)
	}
	if _, known := machinev1.Health_name[int32(s.GetHealth())]; !known {
		return invalid("the health of the group %.100q is %d, which means nothing", s.GetGroup(), s.GetHealth())
	}
	s.Detail = detail(s.GetDetail())
	for _, labels := range []map[string]string{m.GetLabels(), s.GetLabels()} {
		if wrong := kinds.CheckMetadata(&kinds.Resource{Kind: mesh.WorkloadEntry, Namespace: m.GetNamespace(), Name: s.GetGroup(), Labels: labels}); len(wrong) > 0 {
			return invalid("the service of the group %.100q: %s", s.GetGroup(), told(wrong[0]))
		}
	}
	spec, err := protojson.Marshal(&networking.WorkloadEntry{
		Address: m.GetAddress(), Network: m.GetNetwork(), Locality: m.GetLocality(), Ports: s.GetPorts(), Weight: s.GetWeight(), ServiceAccount: m.GetServiceAccount(),
	})
	if err != nil {
		return invalid("the service of the group %.100q: %v", s.GetGroup(), err)
	}
	if wrong := mesh.WorkloadEntry.Check(spec, kinds.Meta{Name: s.GetGroup(), Namespace: m.GetNamespace()}); len(wrong) > 0 {
		return invalid("the service of the group %.100q: %s", s.GetGroup(), told(wrong[0]))
	}
	return nil
}

// told is a violation without the name of its resource, which does not exist yet.
func told(v kinds.Violation) string {
	text := v.Path + ": " + v.Reason
	if v.Hint != "" {
		text += " (" + v.Hint + ")"
	}
	return text
}

func checkReport(r *machinev1.HealthReport) (*machinev1.HealthReport, error) {
	if _, known := machinev1.Health_name[int32(r.GetHealth())]; !known {
		return nil, invalid("the health of the group %.100q is %d, which means nothing", r.GetGroup(), r.GetHealth())
	}
	return &machinev1.HealthReport{Group: r.GetGroup(), Health: r.GetHealth(), Detail: detail(r.GetDetail())}, nil
}

// detail is one line, short enough to read.
func detail(text string) string {
	return refusal.Short(strings.Join(strings.Fields(text), " "), mostDetail)
}

// streamCounts counts the streams of each enrolment.
type streamCounts struct {
	mu     sync.Mutex
	inside map[string]int
}

func newStreamCounts() *streamCounts { return &streamCounts{inside: map[string]int{}} }

// enter counts a stream until leave is called.
func (c *streamCounts) enter(who *Caller) (leave func(), err error) {
	if who.Enrolment == "" {
		return func() {}, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside[who.Enrolment] >= mostStreams {
		return nil, status.Errorf(codes.ResourceExhausted, "%d streams register machines by the certificates of one: give each machine a certificate of its own (mesh-agent join)", mostStreams)
	}
	c.inside[who.Enrolment]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.inside[who.Enrolment]--; c.inside[who.Enrolment] == 0 {
			delete(c.inside, who.Enrolment)
		}
	}, nil
}
