package reference

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// eachText visits the string fields of a kind's spec by their paths, without list indexes.
func eachText(k *kinds.Kind, visit func(path string)) {
	var walk func(at string, t *schema.Type)
	walk = func(at string, t *schema.Type) {
		for _, f := range t.Fields {
			path := strings.TrimPrefix(at+"."+f.Name, ".")
			switch f.Type {
			case schema.Message:
				walk(path, schema.Types()[f.TypeRef])
			case schema.String:
				visit(path)
			}
		}
	}
	if root, ok := schema.Root(k.Group, k.Name); ok {
		walk("", root)
	}
}

// Paths that look like references: words for things that can be named, or the name in an object
// called a reference.
var (
	likeAName    = regexp.MustCompile(`(?i)(host|hosts|hostname|hostnames|gateway|gateways|refs?|delegate|service|subset|credential(name|names)?|secret(name)?|backend|parent|provider|namespaces?|exportTo|egressProxy|className|accounts?|principals?)$`)
	ofAReference = regexp.MustCompile(`(?i)(refs?|delegate|destination|providers?|backend|target|secret|mirrors?|header|environment)\.name$`)
)

// A field that Istio adds must be listed in the table, either as a reference or as none.
func TestEveryLikelyReferenceIsListed(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, k := range kinds.All() {
		paths := map[string]bool{}
		for _, n := range Of(k) {
			paths[n.Path] = true
		}
		named := func(path string) bool {
			holder, _ := cut(path)
			outer, _ := cut(holder)
			return paths[path] || paths[holder] || paths[outer] // destination.port.number
		}
		eachText(k, func(path string) {
			for _, o := range table().Others {
				for _, p := range o.Paths {
					if o.of(k) && fits(p, path) {
						used[o.String()+" "+p] = true
					}
				}
			}
			if (likeAName.MatchString(path) || ofAReference.MatchString(path)) && !named(path) && dismissed(k, path) == "" {
				t.Errorf("%s.%s: %s looks like a name of something: add it to kinds/reference/references.yaml, under named, or under others with the reason", k, k.Group, path)
			}
		})
	}
	for _, o := range table().Others {
		for _, p := range o.Paths {
			require.Truef(t, used[o.String()+" "+p], "nothing is dismissed by %v %s: it has outlived its field", o.Kinds, p)
		}
	}
}

func (o other) String() string { return fmt.Sprint(o.Group, o.Kinds) }

// dismissed returns why a field that looks like a reference is none, "" if the table does not list
// it.
func dismissed(k *kinds.Kind, path string) string {
	for _, o := range table().Others {
		if o.of(k) && slices.ContainsFunc(o.Paths, func(pattern string) bool { return fits(pattern, path) }) {
			return o.Reason
		}
	}
	return ""
}

func (o other) of(k *kinds.Kind) bool {
	return len(o.Kinds) == 0 || o.Group == k.Group && slices.Contains(o.Kinds, k.Name)
}

// fits reports whether a path matches a pattern. A * at its beginning or end stands for anything.
func fits(pattern, path string) bool {
	end, anyStart := strings.CutPrefix(pattern, "*")
	start, anyEnd := strings.CutSuffix(end, "*")
	switch {
	case anyStart && anyEnd:
		return strings.Contains(path, start)
	case anyStart:
		return strings.HasSuffix(path, end)
	case anyEnd:
		return strings.HasPrefix(path, start)
	}
	return path == pattern
}

func cut(path string) (before, last string) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path
	}
	return path[:i], path[i+1:]
}

// Each entry is about fields that there are, of the form that it says.
func TestTheTableIsOfFieldsThatThereAre(t *testing.T) {
	t.Parallel()
	members := map[Form][]string{
		DestinationForm: {"host", "subset", "port"}, FullHostForm: {"host", "subset", "port"}, DelegateForm: {"name", "namespace"},
		SecretForm: {"group", "kind", "name", "namespace"}, AttachmentForm: {"group", "kind", "name"}, BackendForm: {"group", "kind", "name", "port"},
	}
	texts := []Form{HostForm, GatewayForm, CredentialForm, PullSecretForm, ClassForm}
	for _, e := range table().Named {
		require.Equalf(t, e.Role == "", e.Told != "", "%v: either mesh.problems has a role for it, or it says who tells", e.Paths)
		for _, name := range e.Kinds {
			_, known := kinds.Lookup(e.Group, name)
			require.Truef(t, known, "%s/%s is no kind", e.Group, name)
			for _, path := range e.Paths {
				at, ok := schema.Root(e.Group, name)
				require.True(t, ok)
				var last schema.Field
				for step := range strings.SplitSeq(path, ".") {
					require.NotNilf(t, at, "%s: nothing is below %s", path, last.Name)
					i := slices.IndexFunc(at.Fields, func(f schema.Field) bool { return f.Name == step })
					require.GreaterOrEqualf(t, i, 0, "%s has no field %s (%s)", at.Name, step, path)
					last = at.Fields[i]
					at = schema.Types()[last.TypeRef]
				}
				if slices.Contains(texts, e.Form) {
					require.Equalf(t, schema.String, last.Type, path)
					continue
				}
				require.NotEmptyf(t, members[e.Form], "%s has no form that is known: %s", path, e.Form)
				for _, member := range members[e.Form] {
					require.Truef(t, slices.ContainsFunc(at.Fields, func(f schema.Field) bool { return f.Name == member }), "%s is no %s: it has no %s", path, e.Form, member)
				}
			}
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for _, test := range [][2]string{
		{"reviews", "reviews.shop.svc.cluster.local"},
		{"Reviews", "reviews.shop.svc.cluster.local"},
		{"Reviews.Example.com", "reviews.example.com"},
		{"*", "*"},
		{"*.example.com", "*.example.com"},
		{"*-old", "*-old.shop.svc.cluster.local"},
		{"10.0.0.1", "10.0.0.1"},
		{"fd00::1", "fd00::1"},
		{"", ""},
	} {
		require.Equal(t, test[1], FullHost(test[0], "shop"), test[0])
	}
	for _, test := range [][2]string{
		{"mesh", "mesh"},
		{"edge", "shop/edge"},
		{"./edge", "shop/edge"},
		{"ingress/edge", "ingress/edge"},
		{"edge.ingress", "ingress/edge"},
		{"edge.ingress.svc.cluster.local", "ingress/edge"},
		{"ingress/edge.b", "ingress/edge.b"},
	} {
		require.Equal(t, test[1], FullGateway(test[0], "shop"), test[0])
	}
}
