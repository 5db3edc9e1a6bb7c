package registries

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/registry"
)

// Whole secrets go to the publisher, whose clients are asked for a scope. What an origin has of them,
// and tells people and the mirror, is what anyone may see: their public values.

// Lending are the names of the registries that are to have secrets for gateways.
func (all *Registries) Lending() (names []string) {
	for _, o := range all.origins {
		if o.lends() {
			names = append(names, o.registry.Name())
		}
	}
	return names
}

func (o *origin) lends() bool {
	l, is := o.registry.(registry.Lender)
	return is && l.LendsSecrets()
}

// awaitsSecrets reports whether secrets are still to come, and none were saved.
func (o *origin) awaitsSecrets() bool { return o.lends() && !o.lent }

// Secrets returns what anyone may see of the secrets that registries have in some namespaces, in all if
// there are none, in the order of their names. Those that the mesh has one of the same name of are left out.
func (all *Registries) Secrets(namespaces []string) (out []*kinds.Resource, err error) {
	seen := map[kinds.Key]bool{}
	for _, o := range all.origins {
		for _, r := range o.shown(namespaces) {
			key := keyOf(kinds.Secret, r.Name)
			if seen[key] || all.publisher.IsOwn(kinds.Secret, r.Name) {
				continue
			}
			seen[key] = true
			read, err := kinds.FromAny(kinds.Secret, r.Name, r.Body)
			if err != nil {
				return nil, err
			}
			out = append(out, read)
		}
	}
	slices.SortFunc(out, func(a, b *kinds.Resource) int { return a.Key().Compare(b.Key()) })
	return out, nil
}

func (o *origin) shown(namespaces []string) (all []*served.Resource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key, had := range o.has {
		if key.Kind == kinds.Secret && (len(namespaces) == 0 || slices.Contains(namespaces, key.Namespace)) {
			all = append(all, had.served)
		}
	}
	return all
}

// Secrets serves the secrets of a namespace. Of one that cannot be used the last good state stays, for
// the service accounts that it names now.
func (o *origin) Secrets(namespace string, all []registry.Secret) {
	o.mu.Lock()
	defer o.mu.Unlock()
	there := make(map[kinds.Key]bool, len(all))
	c := newChanges()
	for _, s := range all {
		there[s.Key()] = true
		o.takeSecret(&c, s)
	}
	for key := range o.has {
		if key.Kind == kinds.Secret && key.Namespace == namespace && !there[key] {
			o.remove(&c, key)
		}
	}
	for key := range o.unfit {
		if key.Namespace == namespace && !there[key] {
			note(o, o.unfit, key, key.String(), nil)
		}
	}
	o.lent = true
	o.publish(c)
}

func (o *origin) takeSecret(c *publish.Changes, s registry.Secret) {
	key, had := s.Key(), o.has[s.Key()]
	if had.from == s.Resource {
		return
	}
	whole, err := o.encodeSecret(s)
	if err == nil && o.full(had) {
		err = errTooMany
	}
	if note(o, o.unfit, key, key.String(), err); err != nil {
		if whole, err = o.lastGood(s); err != nil {
			o.remove(c, key)
			return
		}
	}
	shown, err := public(key, whole)
	if err != nil { // it was just encoded
		o.remove(c, key)
		return
	}
	o.put(c, key, item{from: s.Resource, served: shown, entry: s.Annotations[kinds.OriginEntryAnnotation]}, whole)
}

var errNobody = errors.New("it names no service account whose gateways may have it, so nobody is given it")

// encodeSecret checks a secret and converts it into the form that is sent to clients. No error repeats
// a value.
func (o *origin) encodeSecret(s registry.Secret) (*served.Resource, error) {
	spec, is := s.Spec.Message().(*mcpv1.Secret)
	switch {
	case !is:
		return nil, errors.New("it is no secret")
	case len(spec.GetServiceAccounts()) == 0:
		return nil, errNobody
	}
	if wrong := kinds.CheckSecret(spec); len(wrong) > 0 {
		return nil, kinds.Errors(wrong)
	}
	return o.whole(s.Resource, s.Version, spec)
}

// whole is a secret as it is sent.
func (o *origin) whole(r *kinds.Resource, state string, spec *mcpv1.Secret) (*served.Resource, error) {
	return panics.Receive(func() (*served.Resource, error) {
		marked := o.marked(r)
		marked.Spec = kinds.SpecOf(spec)
		known, err := json.Marshal(map[string]any{"state": state, "serviceAccounts": spec.GetServiceAccounts()})
		if err != nil {
			return nil, err
		}
		version, err := kinds.ContentVersion(marked.Labels, marked.Annotations, known, r.CreateTime)
		if err != nil {
			return nil, err
		}
		body, err := marked.Any(version)
		if err != nil {
			return nil, err
		}
		return served.NewResource(r.Key().FullName(), version, body), nil
	})
}

// lastGood is the state of a secret that is served, for the service accounts that it names now.
func (o *origin) lastGood(s registry.Secret) (*served.Resource, error) {
	now, is := s.Spec.Message().(*mcpv1.Secret)
	had := o.publisher.JoinedResource(o.registry.Name(), kinds.Secret, s.Key().FullName())
	if had == nil || !is || len(now.GetServiceAccounts()) == 0 {
		return nil, errNobody
	}
	before, err := kinds.FromAny(kinds.Secret, had.Name, had.Body)
	if err != nil {
		return nil, err
	}
	spec, is := before.Spec.Message().(*mcpv1.Secret)
	if !is {
		return nil, errNobody
	}
	if slices.Equal(spec.GetServiceAccounts(), now.GetServiceAccounts()) {
		return had, nil
	}
	return o.whole(s.Resource, had.Version, &mcpv1.Secret{Type: spec.GetType(), Data: spec.GetData(), ServiceAccounts: now.GetServiceAccounts()})
}

// public is what anyone may see of a secret: of its values the certificates alone, and of the others
// their names.
func public(key kinds.Key, whole *served.Resource) (*served.Resource, error) {
	r, err := kinds.FromAny(key.Kind, key.FullName(), whole.Body)
	if err != nil {
		return nil, err
	}
	spec, is := r.Spec.Message().(*mcpv1.Secret)
	if !is {
		return nil, fmt.Errorf("%s is no secret", key)
	}
	shown := &mcpv1.Secret{Type: spec.GetType(), Data: make(map[string][]byte, len(spec.GetData())), ServiceAccounts: spec.GetServiceAccounts()}
	for name, value := range spec.GetData() {
		if !credential.IsPublic(name) {
			value = nil
		}
		shown.Data[name] = value
	}
	r.Spec = kinds.SpecOf(shown)
	body, err := r.Any(whole.Version)
	if err != nil {
		return nil, err
	}
	return served.NewResource(whole.Name, whole.Version, body), nil
}
