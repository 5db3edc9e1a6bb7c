package register

import (
	"cmp"
	"maps"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// machineKey identifies a machine. Its certificate's identity is part of it. Two machines with one
// name and different identities do not affect each other here; mcp-server takes the one that the
// group is for.
type machineKey struct{ namespace, serviceAccount, id string }

// instanceKey identifies a service of a machine.
type instanceKey struct {
	machineKey

	group string
}

// instance is a service of a machine. The roster's lock guards it.
type instance struct {
	key   instanceKey
	since int64
	// What was last said of it, and by whom.
	machine *machinev1.Machine
	service *machinev1.Service
	caller  *Caller
	state   machinev1.Change_State
	stream  *stream // where answers go; nil when it has ended

	// version counts its changes. Sent is the version that mcp-server is being told, 0 for none, and
	// known the last that it has taken.
	version, sent, known uint64
	queued               bool
	forgotten            bool // the roster has dropped it
	// account is the service account of the group's machines, as of when the group was last here.
	account string
	// outcome is that of its last report; nil before the first answer.
	outcome *machinev1.Outcome
}

// change is the report about the instance.
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
		s.Health = machinev1.Health_HEALTH_HEALTHY // there is no probe that could tell
	}
	if of != nil {
		i.account = of.account
	}
	account := cmp.Or(i.key.serviceAccount, i.account) // without certificates, and if the machine does not say
	return &machinev1.Change{
		Namespace: i.key.namespace, ServiceAccount: account, Enrolment: i.caller.Enrolment, Machine: i.key.id, Since: i.since,
		Address: i.machine.GetAddress(), Network: i.machine.GetNetwork(), Locality: i.machine.GetLocality(), Labels: labels,
		Service: s, State: i.state,
	}
}

// here reports whether the machine is connected.
func (i *instance) here() bool { return i.state == machinev1.Change_STATE_HERE }
