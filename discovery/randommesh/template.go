package randommesh

import (
	_ "embed"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/kinds"
)

//go:embed template.yaml
var templateText string

//go:embed rivals.yaml
var rivalsText string

// Template is a mesh of about ten services, written by hand, with alternatives in many places.
type Template struct{ forms []*form }

// form is a resource with alternatives: texts[i] comes before places[i], and the last text after
// all of them.
type form struct {
	texts  []string
	places [][]string

	read sync.Map // what texts were parsed as: parsing takes most of a history's time
}

// NewTemplate returns the template in template.yaml, with new keys for its secrets.
func NewTemplate(t testing.TB) *Template {
	t.Helper()
	authority := certtest.NewAuthority(t)
	text := strings.NewReplacer("$ONE", pair(authority), "$TWO", pair(authority)).Replace(templateText)
	return readTemplate(text)
}

// NewRivals returns a template of ServiceEntries that claim the same hosts.
func NewRivals() *Template { return readTemplate(rivalsText) }

func readTemplate(text string) *Template {
	template := &Template{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		template.forms = append(template.forms, readForm(document))
	}
	return template
}

func pair(a *certtest.Authority) string {
	p, encode := a.Issue(nil), base64.StdEncoding.EncodeToString
	return fmt.Sprintf("{tls.crt: %s, tls.key: %s, ca.crt: %s}", encode(p.Cert), encode(p.Key), encode(a.PEM))
}

var place = regexp.MustCompile(`<[^>]*>`)

func readForm(text string) *form {
	f := &form{}
	at := 0
	for _, found := range place.FindAllStringIndex(text, -1) {
		f.texts = append(f.texts, text[at:found[0]])
		f.places = append(f.places, strings.Split(text[found[0]+1:found[1]-1], "|"))
		at = found[1]
	}
	f.texts = append(f.texts, text[at:])
	return f
}

func (f *form) write(choices []int) string {
	var b strings.Builder
	for i, chosen := range choices {
		b.WriteString(f.texts[i])
		b.WriteString(f.places[i][chosen])
	}
	b.WriteString(f.texts[len(choices)])
	return b.String()
}

// draft parses the form with these choices. Not all choices are valid together.
func (f *form) draft(choices []int) (*Draft, error) {
	text := f.write(choices)
	known, ok := f.read.Load(text)
	if !ok {
		documents, err := kinds.Parser{DefaultNamespace: "shop", Secrets: true}.Parse("template.yaml", []byte(text))
		if err != nil {
			return nil, err
		}
		known, _ = f.read.LoadOrStore(text, documents[0].Resource)
	}
	r := *known.(*kinds.Resource)
	return &Draft{Resource: &r, form: f, choices: choices}, nil
}

// Begin leaves some resources out, and varies some of the rest. Half of the meshes begin without
// patches: with patches, whole messages are made where otherwise parts are.
func (w *Template) Begin(t testing.TB, dice *rand.Rand) (out []*Draft) {
	t.Helper()
	full, patched := 2+dice.IntN(8), dice.IntN(2) == 0
	for _, f := range w.forms {
		if dice.IntN(10) < full && (patched || !strings.Contains(f.texts[0], "kind: EnvoyFilter")) {
			out = append(out, f.draw(t, dice))
		}
	}
	return out
}

// Another draws one of the template's resources.
func (w *Template) Another(t testing.TB, dice *rand.Rand) *Draft {
	t.Helper()
	return w.forms[dice.IntN(len(w.forms))].draw(t, dice)
}

// Vary replaces one alternative, rarely two.
func (w *Template) Vary(t testing.TB, dice *rand.Rand, d *Draft) *Draft {
	t.Helper()
	varied := d
	for n := 1 + dice.IntN(5)/4; n > 0 && len(d.choices) > 0; n-- {
		choices := slices.Clone(varied.choices)
		i := dice.IntN(len(choices))
		choices[i] = dice.IntN(len(d.form.places[i]))
		if next, err := d.form.draft(choices); err == nil {
			next.CreateTime = d.CreateTime
			varied = next
		}
	}
	return varied
}

// mostDraws is how often a form is drawn until its choices are valid together. One that never is would
// otherwise be drawn for ever.
const mostDraws = 1000

// draw mostly takes the first alternative.
func (f *form) draw(t testing.TB, dice *rand.Rand) *Draft {
	t.Helper()
	var wrong error
	for range mostDraws {
		choices := make([]int, len(f.places))
		for i, alternatives := range f.places {
			if dice.IntN(4) == 0 {
				choices[i] = dice.IntN(len(alternatives))
			}
		}
		d, err := f.draft(choices)
		if err == nil {
			d.CreateTime = age(dice)
			return d
		}
		wrong = err
	}
	require.NoError(t, wrong, "a form of the template is never valid")
	return nil
}

// Nodes are different proxies: with and without services at their address, with and without a
// certificate, and routers.
func (w *Template) Nodes(t testing.TB) (nodes []*corev3.Node) {
	t.Helper()
	for _, n := range []struct {
		id, locality string
		metadata     map[string]any
	}{
		{"sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local", "eu/a/1", map[string]any{"LABELS": map[string]any{"app": "web"}, "ISTIO_VERSION": "1.31.0"}},
		{"sidecar~10.0.0.2~cart-1.shop~shop.svc.cluster.local", "eu/b/1", map[string]any{"LABELS": map[string]any{"app": "cart"}, "INTERCEPTION_MODE": "NONE"}},
		{"sidecar~10.0.0.3~pay-1.bank~bank.svc.cluster.local", "us/a/1", map[string]any{"ISTIO_VERSION": "1.31.0", "NETWORK": "far"}},
		{"sidecar~10.0.0.4~front-1.front~front.svc.cluster.local", "", map[string]any{"DNS_CAPTURE": "true"}},
		{"sidecar~10.0.0.5~other.shop~shop.svc.cluster.local", "", map[string]any{"LABELS": map[string]any{"app": "none"}}},
		{"sidecar~10.0.0.11~another.shop~shop.svc.cluster.local", "", map[string]any{"LABELS": map[string]any{"app": "none", "tier": "a"}}},
		{"sidecar~10.0.0.10~asking.front~front.svc.cluster.local", "", map[string]any{"ON_DEMAND": "true", "ISTIO_VERSION": "1.31.0"}},
		{"sidecar~fd00::6~six.elsewhere~elsewhere.svc.cluster.local", "", map[string]any{"INSTANCE_IPS": "fd00::6,10.0.0.6"}},
		{"router~10.0.0.7~gate-1.edge~edge.svc.cluster.local", "eu/a/1", map[string]any{"LABELS": map[string]any{"app": "edge", "istio": "gate", "gateway.networking.k8s.io/gateway-name": "entry"}, "ISTIO_VERSION": "1.31.0"}},
		{"router~10.0.0.8~other-1.edge~edge.svc.cluster.local", "", map[string]any{"LABELS": map[string]any{"app": "other"}}},
		{"router~10.0.0.9~own-1.shop~shop.svc.cluster.local", "", map[string]any{"LABELS": map[string]any{"app": "edge"}}},
	} {
		metadata, err := structpb.NewStruct(n.metadata)
		require.NoError(t, err)
		nodes = append(nodes, &corev3.Node{Id: n.id, Metadata: metadata, Locality: locality(n.locality)})
	}
	return nodes
}
