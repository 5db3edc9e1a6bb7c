package admin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
)

// resolve finds the kinds of the resources that a request names. Its error has all that is wrong with any of them.
func resolve(refs []*adminv1.ResourceRef) ([]kinds.Key, error) {
	if len(refs) == 0 {
		return nil, kinds.Errors{{Reason: "there is no resource named in the request"}}
	}
	var violations kinds.Errors
	keys := make([]kinds.Key, len(refs))
	for i, ref := range refs {
		kind, known := kinds.Lookup(ref.GetGroup(), ref.GetKind())
		keys[i] = kinds.Key{Kind: kind, Namespace: ref.GetNamespace(), Name: ref.GetName()}
		if reason := wrong(keys[i]); !known {
			violations = append(violations, violation(ref, fmt.Sprintf("unknown kind %q of group %q", ref.GetKind(), ref.GetGroup())))
		} else if reason != "" {
			violations = append(violations, violation(ref, reason))
		} else if slices.Contains(keys[:i], keys[i]) {
			violations = append(violations, violation(ref, "is named twice in one change"))
		}
	}
	if len(violations) > 0 {
		return nil, violations
	}
	return keys, nil
}

func wrong(key kinds.Key) string {
	switch {
	case key.Kind == nil:
		return ""
	case key.Name == "":
		return "its name is missing"
	case key.Kind.Namespaced && key.Namespace == "":
		return "its namespace is missing"
	case !key.Kind.Namespaced && key.Namespace != "":
		return "a " + key.Kind.Name + " has no namespace"
	}
	return ""
}

func violation(ref *adminv1.ResourceRef, reason string) kinds.Violation {
	return kinds.Violation{Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName(), Reason: reason}
}

// outcomes pairs the resources of a change with what happened to them.
func outcomes(keys []kinds.Key, of []store.Outcome) []*adminv1.Outcome {
	told := make([]*adminv1.Outcome, len(of))
	for i, o := range of {
		told[i] = &adminv1.Outcome{Resource: refTo(keys[i]), Action: actions[o]}
	}
	return told
}

var actions = map[store.Outcome]adminv1.Outcome_Action{
	store.Created:    adminv1.Outcome_ACTION_CREATED,
	store.Configured: adminv1.Outcome_ACTION_CONFIGURED,
	store.Unchanged:  adminv1.Outcome_ACTION_UNCHANGED,
	store.Deleted:    adminv1.Outcome_ACTION_DELETED,
}

func refTo(k kinds.Key) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: k.Kind.Group, Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name}
}

// missing lists the resources that an error says are not there; none if it says something else.
func missing(err error) []kinds.Key {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { // errors.As would find the first alone
		var keys []kinds.Key
		for _, e := range joined.Unwrap() {
			keys = append(keys, missing(e)...)
		}
		return keys
	}
	if absent, ok := errors.AsType[*store.NotFoundError](err); ok {
		return []kinds.Key{absent.Key}
	}
	return nil
}

func without(keys, left []kinds.Key) []kinds.Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k kinds.Key) bool { return slices.Contains(left, k) })
}
