package register

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/monitor"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// standing is how a service stands, in one word.
type standing string

const (
	registeredState standing = "registered"
	refusedState    standing = "refused"
	waitingState    standing = "waiting"
	leavingState    standing = "leaving"
)

func (i *instance) standing() standing {
	switch {
	case !i.here():
		return leavingState
	case i.outcome == nil:
		return waitingState
	case i.outcome.GetRefused() != "":
		return refusedState
	default:
		return registeredState
	}
}

func (b *roster) count() (machines int, services map[standing]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	services = map[standing]int{}
	for _, i := range b.instances {
		services[i.standing()]++
	}
	return len(b.machines), services
}

// shownService is a service of a machine, for people.
type shownService struct {
	Machine   string     `json:"machine"`
	Namespace string     `json:"namespace"`
	Group     string     `json:"group"`
	Account   string     `json:"service_account,omitempty"`
	Address   string     `json:"address"`
	State     standing   `json:"state"`
	Entry     string     `json:"entry,omitempty"`
	Refused   string     `json:"refused,omitempty"`
	Health    string     `json:"health"`
	Detail    string     `json:"detail,omitempty"`
	Connected *time.Time `json:"connected,omitempty"`
	Reporting bool       `json:"reporting,omitempty"` // mcp-server is to be told, or has not answered yet
}

// words name the health of a service.
var words = map[machinev1.Health]string{
	machinev1.Health_HEALTH_UNSPECIFIED: "unknown", machinev1.Health_HEALTH_HEALTHY: "healthy", machinev1.Health_HEALTH_UNHEALTHY: "unhealthy",
	machinev1.Health_HEALTH_DRAINING: "draining",
}

func (b *roster) shown() []shownService {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]shownService, 0, len(b.instances))
	for _, i := range b.instances {
		c := i.change(b.group(i.key.namespace, i.key.group))
		s := shownService{
			Machine: i.key.id, Namespace: i.key.namespace, Group: i.key.group, Account: i.key.serviceAccount, Address: i.machine.GetAddress(),
			State: i.standing(), Entry: i.outcome.GetEntry(), Refused: i.outcome.GetRefused(),
			Health: words[c.GetService().GetHealth()], Detail: i.service.GetDetail(), Reporting: i.queued || i.sent != 0,
		}
		if i.outcome == nil {
			s.Refused = b.away
		}
		if i.stream != nil {
			s.Connected = &i.stream.begun
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b shownService) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.Account, b.Account))
	})
	return list
}

// Page shows the connected machines.
func (s *Service) Page() monitor.Page {
	return monitor.Page{
		Path: "/debug/machines", About: "Lists the services of machines that register here, with their entries, their health, and why one has no entry.",
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { monitor.WriteJSON(w, s.roster.shown()) }),
	}
}
