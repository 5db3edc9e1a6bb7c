package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// Policies and Gateways name ConfigMaps that have authorities. The mesh has no ConfigMaps: each of these
// resources has the authorities that it names, in an annotation. Only ConfigMaps that are named are read,
// each by a list of its own, and of them ca.crt alone.

// configMapsEntry begins the entries of ConfigMaps, as kubectl names them.
const configMapsEntry = "configmaps"

const (
	mostAuthorities  = 200       // ConfigMaps that are followed: each is a watch
	largestAuthority = 256 << 10 // bytes
)

// carries reports whether resources of a kind have the authorities that they name.
func carries(k *kinds.Kind) bool {
	return k.Group == "gateway.networking.k8s.io" && (k.Name == "BackendTLSPolicy" || k.Name == "Gateway")
}

// configMapObject is a ConfigMap.
type configMapObject struct {
	Metadata struct {
		bare
	} `json:"metadata"`
	Data struct {
		Authorities string `json:"ca.crt"`
	} `json:"data"`
}

// Version implements follow.Object.
func (o configMapObject) Version() string { return o.Metadata.ResourceVersion }

// authorities are the ConfigMaps that resources name.
type authorities struct {
	context  context.Context //nolint:containedctx // it is that of the lists, which begin when a resource names them
	errors   *errgroup.Group
	group    *group
	followed map[key]*followedMap
	of       map[kinds.Key][]key // what each resource names
}

// followedMap is a ConfigMap that is followed.
type followedMap struct {
	text string // "" if it has no authorities
	by   map[kinds.Key]bool
	stop context.CancelFunc
	part *part
}

func (m *mesh) followAuthorities(ctx context.Context, g *errgroup.Group) {
	m.authorities = authorities{context: ctx, errors: g, group: m.newGroup(configMapsEntry), followed: map[key]*followedMap{}, of: map[kinds.Key][]key{}}
}

func configMapEntry(k key) string { return configMapsEntry + "/" + k.String() }

// carrying is a resource with the authorities that it names, as far as they are known. An annotation of
// the cluster does not count.
func (m *mesh) carrying(r *kinds.Resource) *kinds.Resource {
	named := map[string]string{}
	for _, k := range m.authorities.of[r.Key()] {
		if f := m.authorities.followed[k]; f != nil && f.text != "" {
			named[k.String()] = f.text
		}
	}
	text := ""
	if len(named) > 0 {
		text = kinds.WrittenAuthorities(named)
	}
	if r.Annotations[kinds.OriginAuthoritiesAnnotation] == text {
		return r
	}
	out := *r
	out.Annotations = maps.Clone(r.Annotations)
	if delete(out.Annotations, kinds.OriginAuthoritiesAnnotation); text != "" {
		out.Annotations[kinds.OriginAuthoritiesAnnotation] = text
	}
	return &out
}

// noteNamed notes which ConfigMaps a resource names, nil for none, and follows those alone that some resource
// names.
func (m *mesh) noteNamed(of kinds.Key, named []key) {
	a := &m.authorities
	for _, k := range a.of[of] {
		if f := a.followed[k]; f != nil && !slices.Contains(named, k) {
			if delete(f.by, of); len(f.by) == 0 {
				m.unfollow(k)
			}
		}
	}
	for _, k := range named {
		if f := m.followed(k); f != nil {
			f.by[of] = true
		}
	}
	if a.of[of] = named; len(named) == 0 {
		delete(a.of, of)
	}
}

// followed is a ConfigMap that is followed, from now on if it was not. It is nil if it is one too many.
func (m *mesh) followed(k key) *followedMap {
	a := &m.authorities
	if f := a.followed[k]; f != nil {
		return f
	}
	if len(a.followed) >= mostAuthorities {
		m.blame(configMapEntry(k), fmt.Errorf("more than %d ConfigMaps have authorities that somebody names, and this one is left out", mostAuthorities))
		return nil
	}
	f := &followedMap{by: map[kinds.Key]bool{}, part: a.group.add(configMapsEntry)}
	a.followed[k] = f
	var ctx context.Context
	ctx, f.stop = context.WithCancel(a.context)
	path := "/api/v1/namespaces/" + k.namespace + "/configmaps?fieldSelector=" + url.QueryEscape("metadata.name="+k.name)
	followList(ctx, a.errors, path, m.reading(k, f))
	return f
}

func (m *mesh) unfollow(k key) {
	a := &m.authorities
	f := a.followed[k]
	f.stop()
	delete(a.followed, k)
	a.group.parts = slices.DeleteFunc(a.group.parts, func(p *part) bool { return p == f.part })
	m.blame(configMapEntry(k), nil)
}

// reading keeps the authorities of one ConfigMap.
func (m *mesh) reading(k key, f *followedMap) *list[configMapObject] {
	set := func(o *configMapObject) {
		if m.authorities.followed[k] == f {
			m.setAuthorities(k, f, o)
		}
	}
	return &list[configMapObject]{
		mesh: m, part: f.part,
		all: func(all []configMapObject) {
			for i := range all {
				set(&all[i])
			}
			if len(all) == 0 {
				set(nil)
			}
		},
		changed: func(o configMapObject) { set(&o) },
		gone:    func(configMapObject) { set(nil) },
	}
}

// setAuthorities takes what a ConfigMap has; nil if it is gone. Resources that name it are told again.
func (m *mesh) setAuthorities(k key, f *followedMap, o *configMapObject) {
	before, wrong := f.text, error(nil)
	if f.text = ""; o != nil {
		f.text, wrong = o.authorities()
	}
	if m.blame(configMapEntry(k), wrong); f.text == before {
		return
	}
	for of := range f.by {
		r := m.config[of.Kind][of]
		if r == nil {
			continue
		}
		if is := m.carrying(r); is != r {
			m.config[of.Kind][of], m.altered[of] = is, true
			m.statuses.renew(of, is)
		}
	}
}

// authorities are those of a ConfigMap, or why it has none.
func (o *configMapObject) authorities() (string, error) {
	text := o.Data.Authorities
	switch wrong := credential.Check(credential.Opaque, map[string][]byte{"ca.crt": []byte(text)}); {
	case text == "":
		return "", errors.New("it has no ca.crt, though a resource names it for authorities")
	case len(text) > largestAuthority:
		return "", fmt.Errorf("its ca.crt is larger than %d KiB: name one that has only the authorities that are meant", largestAuthority>>10)
	case len(wrong) > 0:
		return "", fmt.Errorf("its ca.crt %s: %s", wrong[0].Reason, wrong[0].Hint)
	}
	return text, nil
}

// named are the ConfigMaps that a resource names for authorities, of those that may be read.
func (m *mesh) named(r *kinds.Resource) (all []key) {
	fields, ok := r.Spec.Message().(*structpb.Struct)
	if !ok {
		return nil
	}
	eachAuthority(structpb.NewStructValue(fields), func(ref map[string]*structpb.Value) {
		k := key{r.Namespace, ref["name"].GetStringValue()}
		if other := ref["namespace"].GetStringValue(); other != "" {
			k.namespace = other
		}
		reads := len(m.settings.namespaces) == 0 || slices.Contains(m.settings.namespaces, k.namespace)
		if ref["kind"].GetStringValue() == "ConfigMap" && ref["group"].GetStringValue() == "" && reads && kinds.ValidNamespace(k.namespace) &&
			dnsName.MatchString(k.name) && !slices.Contains(all, k) {
			all = append(all, k)
		}
	})
	return all
}

// eachAuthority calls use for each reference to authorities in a spec.
func eachAuthority(in *structpb.Value, use func(map[string]*structpb.Value)) {
	for _, item := range in.GetListValue().GetValues() {
		eachAuthority(item, use)
	}
	for name, value := range in.GetStructValue().GetFields() {
		if name != "caCertificateRefs" {
			eachAuthority(value, use)
			continue
		}
		for _, ref := range value.GetListValue().GetValues() {
			use(ref.GetStructValue().GetFields())
		}
	}
}
