package register

import (
	"cmp"
	"maps"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// machineKey is a machine. Who it is by its certificate is part of it: of two of one name that are somebody else neither knows of the other here,
// and mcp-server takes the one that the group is for.
type machineKey struct{ namespace, serviceAccount, id string }

// instanceKey is a service of a machine.
type instanceKey struct {
	machineKey

	group string
}

// instance is a service of a machine as it stands.
type instance struct {
	key   instanceKey
	since int64
	// as is what was said of it last, and by whom.
	machine *machinev1.Machine
	service *machinev1.Service
	caller  *Caller
	state   machinev1.Change_State
	stream  *stream // that answers go to; nil when it has ended

	// version counts what was said of it, and sent is the one that is on its way to mcp-server, 0 for none.
	version, sent uint64
	queued        bool
	forgotten     bool // it is none any more
	// account is the service account of the group's machines when the group was here last.
	account string
	// outcome is what the last report of it came to; nil before the first answer.
	outcome *machinev1.Outcome
}

// change is the instance as it is reported.
func (i *instance) change(of *group) *machinev1.Change {
	labels := maps.Clone(i.machine.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, i.service.GetLabels())
	s := &machinev1.Service{
		Group: i.key.group, Ports: i.service.GetPorts(), Labels: i.service.GetLabels(), Weight: i.service.GetWeight(),
		Health: i.service.GetHealth(), Detail: i.service.GetDetail(), Probed: i.service.GetProbed(),
	}
	if of != nil && of.probe == nil && !s.GetProbed() && s.GetHealth() == machinev1.Health_HEALTH_UNSPECIFIED {
		s.Health = machinev1.Health_HEALTH_HEALTHY // nobody will ever find out
	}
	if of != nil {
		i.account = of.account
	}
	account := cmp.Or(i.key.serviceAccount, i.account) // where nobody proves anything, nor says it
	return &machinev1.Change{
		Namespace: i.key.namespace, ServiceAccount: account, Enrolment: i.caller.Enrolment, Machine: i.key.id, Since: i.since,
		Address: i.machine.GetAddress(), Network: i.machine.GetNetwork(), Locality: i.machine.GetLocality(), Labels: labels,
		Service: s, State: i.state,
	}
}

// here tells whether the machine is connected.
func (i *instance) here() bool { return i.state == machinev1.Change_STATE_HERE }
