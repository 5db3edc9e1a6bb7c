package admin

import (
	"errors"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/reference"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// resolve turns the references of a request into keys. Its error lists everything that is wrong
// with any of them.
func resolve(refs []*adminv1.ResourceRef) ([]kinds.Key, error) {
	if len(refs) == 0 {
		return nil, kinds.Errors{{Reason: "there is no resource named in the request"}}
	}
	var violations kinds.Errors
	keys := make([]kinds.Key, len(refs))
	for i, ref := range refs {
		var reason string
		if keys[i], reason = keyToChange(ref); reason == "" && slices.Contains(keys[:i], keys[i]) {
			reason = "is named twice in one change"
		}
		if reason != "" {
			violations = append(violations, kinds.Violation{Kind: ref.GetKind(), Namespace: ref.GetNamespace(), Name: ref.GetName(), Reason: reason})
		}
	}
	if len(violations) > 0 {
		return nil, violations
	}
	return keys, nil
}

// keyToChange is keyOf where secrets are allowed too.
func keyToChange(ref *adminv1.ResourceRef) (key kinds.Key, reason string) {
	if kinds.IsSecretName(ref.GetKind()) && (ref.GetGroup() == "" || ref.GetGroup() == kinds.Secret.Group) {
		key = kinds.Key{Kind: kinds.Secret, Namespace: ref.GetNamespace(), Name: ref.GetName()}
		return key, nameProblem(key)
	}
	return keyOf(ref)
}

// keyOf returns the key that a reference names, or the reason why it names none.
func keyOf(ref *adminv1.ResourceRef) (key kinds.Key, reason string) {
	kind, err := reference.Kind(ref)
	if err != nil {
		return kinds.Key{}, err.Error()
	}
	key = kinds.Key{Kind: kind, Namespace: reference.Namespace(ref.GetNamespace()), Name: ref.GetName()}
	return key, nameProblem(key)
}

// nameProblem says what is wrong with a key's name or namespace; "" if nothing is.
func nameProblem(key kinds.Key) string {
	var f fields
	f.text("name", key.Name+key.Namespace, maxNameBytes)
	switch {
	case len(f.violations) > 0:
		return "its name " + f.violations[0].GetDescription()
	case key.Name == "":
		return "its name is missing"
	case key.Kind.Namespaced && key.Namespace == "":
		return "its namespace is missing"
	case !key.Kind.Namespaced && key.Namespace != "":
		return "a " + key.Kind.Name + " has no namespace"
	}
	return ""
}

// outcomes pairs the keys of a change with what happened to them.
func outcomes(keys []kinds.Key, of []resources.Outcome) []*adminv1.Outcome {
	list := make([]*adminv1.Outcome, len(of))
	for i, o := range of {
		list[i] = &adminv1.Outcome{Resource: refTo(keys[i]), Action: actions[o]}
	}
	return list
}

var actions = map[resources.Outcome]adminv1.Outcome_Action{
	resources.Created:    adminv1.Outcome_ACTION_CREATED,
	resources.Configured: adminv1.Outcome_ACTION_CONFIGURED,
	resources.Unchanged:  adminv1.Outcome_ACTION_UNCHANGED,
	resources.Deleted:    adminv1.Outcome_ACTION_DELETED,
}

func refTo(k kinds.Key) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: k.Kind.Group, Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name}
}

// errorsOfType lists all errors of a type among joined errors, where errors.As would find only the
// first.
func errorsOfType[E error](err error) []E {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var found []E
		for _, e := range joined.Unwrap() {
			found = append(found, errorsOfType[E](e)...)
		}
		return found
	}
	if one, ok := errors.AsType[E](err); ok {
		return []E{one}
	}
	return nil
}

// missingKeys lists the resources that an error says do not exist; none for any other error.
func missingKeys(err error) []kinds.Key {
	var keys []kinds.Key
	for _, absent := range errorsOfType[*store.NotFoundError](err) {
		keys = append(keys, absent.Key)
	}
	return keys
}

func without(keys, left []kinds.Key) []kinds.Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k kinds.Key) bool { return slices.Contains(left, k) })
}
