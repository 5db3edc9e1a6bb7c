package catalog

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

const served = `[
	{"Node": {"Node": "two", "Address": "10.0.0.2", "Datacenter": "dc1", "Meta": {"zone": "a"}},
	 "Service": {"ID": "web-2", "Address": "", "Port": 80, "Weights": {"Passing": 5, "Warning": 2}},
	 "Checks": [{"Status": "passing"}, {"Status": "warning"}]},
	{"Node": {"Node": "one", "Address": "10.0.0.1", "Datacenter": "dc1", "Locality": {"Region": "eu", "Zone": "a"}},
	 "Service": {"ID": "web-1", "Address": "10.9.0.1", "Port": 80, "Tags": ["v1"], "Locality": {"Region": "us", "Zone": "b"}},
	 "Checks": [{"Status": "critical"}, {"Status": "warning"}]},
	{"Node": {"Node": "one", "Address": "10.0.0.1"},
	 "Service": {"Kind": "connect-proxy", "ID": "web-1-sidecar-proxy", "Port": 20000}}
]`

func TestAnAnswerIsInstances(t *testing.T) {
	t.Parallel()
	var answer []entry
	require.NoError(t, json.Unmarshal([]byte(served), &answer))
	require.Equal(t, []Instance{
		{ID: "web-1", Node: "one", Datacenter: "dc1", Address: "10.9.0.1", Port: 80, Tags: []string{"v1"}, Locality: Locality{"us", "b"}, Weight: 1, Status: Critical},
		{ID: "web-2", Node: "two", Datacenter: "dc1", Address: "10.0.0.2", Port: 80, NodeMeta: map[string]string{"zone": "a"}, Weight: 2, Status: Warning},
	}, instances(answer))
}

// Nobody knows what a proxy before Consul answers.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(served))
	f.Add([]byte(`[{"Checks": [{"Status": "maintenance"}]}]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		var answer []entry
		if json.Unmarshal(content, &answer) != nil {
			return
		}
		for _, i := range instances(answer) {
			same := i
			require.True(t, i.Equal(same))
			require.LessOrEqual(t, i.Status, Critical)
		}
	})
}
