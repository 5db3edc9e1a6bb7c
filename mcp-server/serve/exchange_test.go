package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

const protocolPage = "../../docs/protocol.md"

// replay is an exchange of the documentation that is carried out.
type replay struct {
	t        *testing.T
	database string
	address  string
	stream   discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	names    map[string]string // what stands for what
}

// The exchange of docs/protocol.md is what a client and a server say to each other, field by field.
func TestTheExchangeOfTheDocumentation(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(protocolPage)
	require.NoError(t, err)
	r := &replay{t: t, database: pgtest.New(t), names: map[string]string{}}
	servers := 0
	for _, step := range stepsOf(string(page)) {
		switch step.who {
		case "psql":
			execute(t, r.database, step.what)
		case "stream":
			r.address = "" // of another server
		case "client":
			if r.address == "" {
				r.address = launch(t, serve.Options{Database: r.database}).MCP.String()
				r.open()
				servers++
			}
			r.say(step.what)
		case "server":
			r.hear(step)
		}
	}
	require.Equal(t, 2, servers)
}

// step is one of an exchange: who does what, and the line of the page where that is.
type step struct {
	who, what string
	line      int
}

// stepsOf reads the blocks of a page that are exchanges. A step begins with who it is, and goes on
// over lines with spaces in that place.
func stepsOf(page string) (steps []step) {
	inside := false
	for n, line := range strings.Split(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			inside = line == "```exchange"
		case !inside:
		case strings.HasPrefix(line, " "):
			steps[len(steps)-1].what += "\n" + strings.TrimSpace(line)
		default:
			who, what, _ := strings.Cut(line, " ")
			steps = append(steps, step{who, strings.TrimSpace(what), n + 1})
		}
	}
	return steps
}

func (r *replay) open() {
	r.t.Helper()
	ctx, client := adsClient(r.t, r.address)
	var err error
	r.stream, err = client.DeltaAggregatedResources(ctx)
	require.NoError(r.t, err)
}

func (r *replay) say(text string) {
	r.t.Helper()
	request := &discoveryv3.DeltaDiscoveryRequest{}
	require.NoError(r.t, protojson.Unmarshal([]byte(r.known(text)), request))
	require.NoError(r.t, r.stream.Send(request))
}

func (r *replay) hear(s step) {
	r.t.Helper()
	response, err := r.stream.Recv()
	require.NoError(r.t, err)
	text, err := protojson.Marshal(response)
	require.NoError(r.t, err)
	var want, got any
	require.NoError(r.t, json.Unmarshal([]byte(s.what), &want), "%s:%d", protocolPage, s.line)
	require.NoError(r.t, json.Unmarshal(text, &got))
	got = r.named(want, got)
	require.Empty(r.t, cmp.Diff(want, got), "%s:%d", protocolPage, s.line)
}

// standsFor is a name that stands for something, after what is said as it is.
var standsFor = regexp.MustCompile(`^(.*)<([^<>]+)>$`)

// named puts the names that stand in what was expected into the places of what they stand for.
func (r *replay) named(want, got any) any {
	switch got := got.(type) {
	case map[string]any:
		want, _ := want.(map[string]any)
		for key, value := range got {
			got[key] = r.named(want[key], value)
		}
	case []any:
		want, _ := want.([]any)
		for i, value := range got {
			if i < len(want) {
				got[i] = r.named(want[i], value)
			}
		}
	case string:
		want, _ := want.(string)
		name := standsFor.FindStringSubmatch(want)
		if name == nil || !strings.HasPrefix(got, name[1]) || got == name[1] {
			return got
		}
		value := strings.TrimPrefix(got, name[1])
		if r.names[name[2]] == "" && !r.isNamed(value) {
			r.names[name[2]] = value
		}
		if r.names[name[2]] == value {
			return want
		}
		return fmt.Sprintf("%s, where <%s> is %s", got, name[2], r.names[name[2]])
	}
	return got
}

// isNamed tells whether there is a name for something already: two names stand for two things.
func (r *replay) isNamed(value string) bool {
	for _, v := range r.names {
		if v == value {
			return true
		}
	}
	return false
}

// known puts what they stand for into the places of names.
func (r *replay) known(text string) string {
	for name, value := range r.names {
		text = strings.ReplaceAll(text, "<"+name+">", value)
	}
	return text
}
