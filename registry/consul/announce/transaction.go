package announce

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// change is one instance to write, or to take away.
type change struct {
	resource string
	instance *instance
	gone     bool
}

// mostChanges are those of a transaction, which may have 64 operations: two for each of them, one
// for the lock and one for the node.
const mostChanges = 31

type operation map[string]any

// The node has an address, for Consul wants one, where nobody is (RFC 5737): instances have their own.
const nowhere = "192.0.2.1"

// node makes the node. Its meta has no agent look after it, nor Consul's monitor of others.
func (w *writer) node() operation {
	return operation{"Node": operation{"Verb": "set", "Node": operation{
		"Node": w.name, "Address": nowhere, "Meta": map[string]string{"external-node": "true", "external-probe": "false"},
	}}}
}

// holding has a transaction do nothing if the lock is no longer held.
func (w *writer) holding() operation {
	return operation{"KV": operation{"Verb": "check-session", "Key": w.lock.key, "Session": w.lock.session}}
}

func (w *writer) operations(c change) []operation {
	i := c.instance
	if c.gone { // Consul asks for the name to look whether the token may
		return []operation{{"Service": operation{"Verb": "delete", "Node": w.name, "Service": operation{"ID": i.ID, "Service": i.Service}}}}
	}
	return []operation{
		{"Service": operation{"Verb": "set", "Node": w.name, "Service": i}},
		{"Check": operation{"Verb": "set", "Check": operation{
			"Node": w.name, "CheckID": checkOf(i.ID), "Name": "health in the mesh", "ServiceID": i.ID, "ServiceName": i.Service, "Status": i.status,
		}}},
	}
}

// result says why a transaction was not made.
type result struct {
	Errors []struct {
		OpIndex int
		What    string
	}
}

// refused are changes that Consul does not make.
type refused map[string]error // by resource

func (refused) Error() string { return "Consul refuses some of the services" }

// send makes changes, all or none.
func (w *writer) send(ctx context.Context, changes []change) error {
	operations, of := []operation{w.holding()}, []string{""}
	if !w.there.node {
		operations, of = append(operations, w.node()), append(of, "")
	}
	for _, c := range changes {
		for _, o := range w.operations(c) {
			operations, of = append(operations, o), append(of, c.resource)
		}
	}
	var answer result
	err := w.client.Change(ctx, "/v1/txn", nil, operations, &answer)
	if refusal, is := errors.AsType[*client.Refusal](err); is && refusal.Status == http.StatusConflict {
		return w.reasons(answer, of)
	}
	if err == nil {
		w.there.node = true
	}
	return err
}

func (w *writer) reasons(answer result, of []string) error {
	wrong := refused{}
	for _, e := range answer.Errors {
		if e.OpIndex < 0 || e.OpIndex >= len(of) {
			return fmt.Errorf("Consul makes no changes: %s", e.What)
		}
		switch resource := of[e.OpIndex]; {
		case e.OpIndex == 0:
			return fmt.Errorf("%w: %s", errLost, e.What)
		case resource == "":
			return fmt.Errorf("Consul does not make the node %s: %s", w.name, e.What)
		default:
			wrong[resource] = errors.New("Consul refuses it: " + e.What)
		}
	}
	if len(wrong) == 0 {
		return errors.New("Consul makes no changes, and does not say why")
	}
	return wrong
}
