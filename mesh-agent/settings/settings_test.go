package settings_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// values returns the flags' values.
type values struct {
	discovery, token string
	concurrency      int
	drain            time.Duration
	insecure         bool
	labels           map[string]string
	upstreams        []string
}

func flags() (*pflag.FlagSet, *values) {
	v := &values{}
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.StringVar(&v.discovery, "discovery", "", "")
	f.StringVar(&v.token, "token", "", "")
	f.IntVar(&v.concurrency, "concurrency", 2, "")
	f.DurationVar(&v.drain, "drain-time", 5*time.Second, "")
	f.BoolVar(&v.insecure, "insecure", false, "")
	f.StringToStringVar(&v.labels, "labels", nil, "")
	f.StringSliceVar(&v.upstreams, "upstreams", []string{"first"}, "")
	f.String("config", "", "")
	return f, v
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh-agent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func read(t *testing.T, path string) (*settings.File, error) {
	t.Helper()
	trial, _ := flags()
	return settings.Read(path, true, trial)
}

const whole = `# a machine
discovery: a.example:15012
concurrency: 4
drain-time: 1m
insecure: true
labels: {app: cart, version: 1.10, note: "a,b \"c\""}
upstreams:
- 10.0.0.1
- 10.0.0.2
services:
- group: cart
  ports: {http: 8080}
  labels: {tier: 1}
  weight: 3
  readiness:
    httpGet: {scheme: https, host: localhost, port: 8080, path: /ready, httpHeaders: [{name: x-probe, value: "1"}]}
    initialDelaySeconds: 0
    timeoutSeconds: 2
    periodSeconds: 5
    successThreshold: 1
    failureThreshold: 3
  liveness:
    exec: {command: [/bin/true, "2"]}
    action: [systemctl, restart, cart]
- group: prices
  readiness: {tcpSocket: {port: 9090}}
- group: stock
  readiness: {grpc: {port: 9091, service: stock.v1}}
`

func TestFileSetsFlags(t *testing.T) {
	t.Parallel()
	f, err := read(t, write(t, whole))
	require.NoError(t, err)
	set, v := flags()
	require.NoError(t, f.Apply(set))
	require.Equal(t, &values{
		discovery: "a.example:15012", concurrency: 4, drain: time.Minute, insecure: true,
		labels: map[string]string{"app": "cart", "version": "1.10", "note": `a,b "c"`}, upstreams: []string{"10.0.0.1", "10.0.0.2"},
	}, v)
}

func TestFileDescribesServices(t *testing.T) {
	t.Parallel()
	f, err := read(t, write(t, whole))
	require.NoError(t, err)
	want := []settings.Service{
		{
			Group: "cart", Ports: map[string]uint32{"http": 8080}, Labels: map[string]string{"tier": "1"}, Weight: 3,
			Readiness: &machinev1.Probe{
				How: &machinev1.Probe_Http{Http: &machinev1.HTTPProbe{
					Scheme: "HTTPS", Host: "localhost", Port: 8080, Path: "/ready", Headers: []*machinev1.Header{{Name: "x-probe", Value: "1"}},
				}},
				InitialDelay: durationpb.New(0), Timeout: durationpb.New(2 * time.Second), Period: durationpb.New(5 * time.Second),
				SuccessThreshold: 1, FailureThreshold: 3,
			},
			Liveness: &settings.Liveness{
				Probe:  &machinev1.Probe{How: &machinev1.Probe_Exec{Exec: &machinev1.ExecProbe{Command: []string{"/bin/true", "2"}}}},
				Action: []string{"systemctl", "restart", "cart"},
			},
		},
		{Group: "prices", Readiness: &machinev1.Probe{How: &machinev1.Probe_Tcp{Tcp: &machinev1.TCPProbe{Port: 9090}}}},
		{Group: "stock", Readiness: &machinev1.Probe{How: &machinev1.Probe_Grpc{Grpc: &machinev1.GRPCProbe{Port: 9091, Service: "stock.v1"}}}},
	}
	require.Empty(t, cmp.Diff(want, f.Services, protocmp.Transform()))
}

func TestJSONIsReadToo(t *testing.T) {
	t.Parallel()
	f, err := read(t, write(t, "{\n\t\"discovery\": \"a:1\",\n\t\"services\": [{\"group\": \"cart\"}]\n}\n"))
	require.NoError(t, err)
	require.Equal(t, []settings.Service{{Group: "cart"}}, f.Services)
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	path := write(t, "discovery: file\nconcurrency: 4\n")
	f, err := read(t, path)
	require.NoError(t, err)
	set, v := flags()
	require.NoError(t, set.Parse([]string{"--discovery", "flag"}))
	require.NoError(t, f.Apply(set))
	for name, value := range map[string]string{"discovery": "offered", "concurrency": "8", "drain-time": "9s"} {
		require.NoError(t, settings.Offer(set, name, value, "ProxyConfig"))
	}
	require.ErrorContains(t, settings.Offer(set, "insecure", "perhaps", "ProxyConfig"), `ProxyConfig: --insecure: "perhaps" is neither true nor false`)

	require.Equal(t, &values{discovery: "flag", concurrency: 4, drain: 9 * time.Second, upstreams: []string{"first"}}, v)
	require.Equal(t, []settings.Setting{
		{Name: "concurrency", Value: "4", From: path + ":2"},
		{Name: "config", Value: "", From: "default"},
		{Name: "discovery", Value: "flag", From: "flag"},
		{Name: "drain-time", Value: "9s", From: "ProxyConfig"},
		{Name: "insecure", Value: "false", From: "default"},
		{Name: "labels", Value: "", From: "default"},
		{Name: "token", Value: "", From: "default"},
	}, settings.List(set, "upstreams"))
}

func TestMissingFileIsAnErrorOnlyIfRequired(t *testing.T) {
	t.Parallel()
	trial, _ := flags()
	nowhere := filepath.Join(t.TempDir(), "none.yaml")
	f, err := settings.Read(nowhere, false, trial)
	require.NoError(t, err)
	require.Equal(t, &settings.File{}, f)
	_, err = settings.Read(nowhere, true, trial)
	require.ErrorContains(t, err, "read the configuration file: open "+nowhere)
}

func TestEmptyFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "# nothing\n", "---\n"} {
		f, err := read(t, write(t, text))
		require.NoError(t, err, "%q", text)
		require.Empty(t, f.Services)
	}
}

func TestMistakesAreReportedWithTheirLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"concurency: 4":                   `:1: "concurency" is no setting: did you mean "concurrency"?`,
		"x: 4":                            `:1: "x" is no setting: there are concurrency, discovery,`,
		"config: x":                       `:1: "config" is no setting`,
		"\ndrain-time: 10":                `:2: drain-time: "10" is no duration: write it with a unit, as 5s or 1m30s`,
		"concurrency: many":               `:1: concurrency: "many" is no number that it takes`,
		"insecure: yes":                   `:1: insecure: "yes" is neither true nor false`,
		"discovery: [a, b]":               `:1: discovery: expected one value, not a list`,
		"labels: [a]":                     `:1: labels: expected a map, not a list`,
		"labels: {a: {b: c}}":             `:1: labels: expected one value in line 1, not a map`,
		"labels: {a: b, a: c}":            `:1: labels: "a" is there twice`,
		"labels: {a=b: c}":                `:1: labels: "a=b" has an equals sign, which no name has`,
		"labels: &all {a: *all}":          `:1: labels: expected one value in line 1, not a map`,
		"upstreams: {a: b}":               `:1: upstreams: expected a value or a list of them, not a map`,
		"discovery:":                      `:1: discovery: there is no value: leave the line out, or write ""`,
		"discovery: a\ndiscovery: b":      `:2: "discovery" is there twice: it was in line 1 already`,
		"discovery: a\n---\ndiscovery: b": `there is a second document in this file`,
		"discovery: \"a":                  `:1: this is no YAML: `,
		"a: b: c":                         `:1: this is no YAML: mapping values are not allowed in this context`,
		"- a":                             `:1: expected a map, not a list`,
		"? [a]\n: b":                      `:1: expected a name, not a list`,
		"contexts: {}\ncurrent: prod":     `these are contexts of mcp-client, whose file PGMESH_CONFIG names, too: name that of the agent with --config`,
		"services: cart":                  `:1: expected services as a list, each with its group, not "cart"`,
		"services: [cart]":                `:1: expected a map, not "cart"`,
		"services: [{}]":                  `:1: which service is this? Name its WorkloadGroup: group: NAME`,
		"services: [{group: }]":           `:1: group: expected a text, not nothing`,
		"services: [{group: ''}]":         `:1: group: expected the name of a WorkloadGroup, not ""`,
		"services: [{group: shop/cart}]":  `:1: group: write cart without shop/: its namespace is that of the machine`,
		"services:\n- group: cart\n- {group: cart}":  `:3: the group cart has a service already, in line 2: a machine is in a group once`,
		"services: [{gruop: cart}]":                  `:1: "gruop" is no field of a service: did you mean "group"?`,
		"services: [{group: cart, ports: {a: 0}}]":   `:1: ports: a: expected a number from 1 to 65535, not "0"`,
		"services: [{group: cart, ports: [8080]}]":   `:1: expected ports as a map of names to numbers, not a list`,
		"services: [{group: cart, weight: -1}]":      `:1: weight: expected a number from 1 to 2147483647, not "-1"`,
		"services: [{group: cart, labels: {a: []}}]": `:1: labels: a: expected a text, not a list`,
		ready("{}"): `:1: how is the service to be asked? A probe has one of httpGet, tcpSocket, exec, grpc`,
		ready("{tcpSocket: {port: 1}, grpc: {port: 1}}"):      `:1: a probe asks in one way, and this has tcpSocket and grpc: choose one`,
		ready("{httpGet: {path: /}}"):                         `:1: httpGet needs a port`,
		ready("{httpGet: {port: http}}"):                      `:1: port: expected a number from 1 to 65535, not "http"`,
		ready("{httpGet: {port: 1, scheme: ftp}}"):            `:1: scheme: expected HTTP or HTTPS, not "ftp"`,
		ready("{httpGet: {port: 1, httpHeaders: [{}]}}"):      `:1: a header needs a name`,
		ready("{exec: {}}"):                                   `:1: exec needs a command: [PROGRAM, ARGUMENT]`,
		ready("{exec: {command: []}}"):                        `:1: command: expected a program and its arguments`,
		ready("{tcpSocket: {port: 1}, periodSeconds: 0}"):     `:1: periodSeconds: expected a number from 1 to 86400, not "0"`,
		ready("{tcpSocket: {port: 1}, timeoutSecond: 1}"):     `:1: "timeoutSecond" is no field of a probe: did you mean "timeoutSeconds"?`,
		ready("{tcpSocket: {port: 1}, action: [a]}"):          `:1: "action" is no field of a probe`,
		"services: [{group: a, liveness: {grpc: {port: 1}}}]": `:1: what is to be done when the service does not live? Say it: action:`,
	} {
		path := write(t, text)
		_, err := read(t, path)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, path+":", text)
	}
}

func ready(probe string) string { return "services: [{group: cart, readiness: " + probe + "}]" }

func TestMistakesAreReportedInOrder(t *testing.T) {
	t.Parallel()
	path := write(t, "services: [{}]\nx-y-z: 1\ndrain-time: 1\n")
	_, err := read(t, path)
	require.Error(t, err)
	lines := bytes.Split([]byte(err.Error()), []byte("\n"))
	require.Len(t, lines, 3)
	for i, line := range lines {
		require.True(t, bytes.HasPrefix(line, []byte(path+":"+string(rune('1'+i))+": ")), "%s", line)
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	path := write(t, "token: secret\n")
	require.NoError(t, os.Chmod(path, 0o640))
	_, err := read(t, path)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = read(t, path)
	require.ErrorContains(t, err, path+":1: token is a secret, and everybody on this machine can read it here: chmod o= "+path)

	path = write(t, "discovery: a:1\n")
	require.NoError(t, os.Chmod(path, 0o646))
	_, err = read(t, path)
	require.ErrorContains(t, err, path+": everybody on this machine can write it, and with it choose what the agent runs: chmod o-w "+path)
}

func TestSettingsArePrinted(t *testing.T) {
	t.Parallel()
	f, err := read(t, write(t, whole))
	require.NoError(t, err)
	set, _ := flags()
	require.NoError(t, set.Parse([]string{"--token", "very secret"}))
	require.NoError(t, f.Apply(set))
	list := settings.List(set)

	var table, text bytes.Buffer
	require.NoError(t, f.WriteTable(&table, list))
	require.Contains(t, table.String(), "discovery     a.example:15012")
	require.Contains(t, table.String(), f.Path+":2\n")
	require.Contains(t, table.String(), "https://localhost:8080/ready")
	require.Contains(t, table.String(), "/bin/true 2, else systemctl restart cart")
	require.NoError(t, f.WriteJSON(&text, list))
	for _, printed := range []string{table.String(), text.String()} {
		require.NotContains(t, printed, "very secret")
		require.Contains(t, printed, "(not shown)")
	}
	var read struct {
		Services []struct {
			Group    string
			Liveness struct{ Action []string }
		}
	}
	require.NoError(t, json.Unmarshal(text.Bytes(), &read))
	require.Equal(t, []string{"systemctl", "restart", "cart"}, read.Services[0].Liveness.Action)
}

func FuzzRead(f *testing.F) {
	f.Add(whole)
	f.Add("labels: &all {a: *all}\nservices: &s [*s]")
	f.Add("{\"discovery\": [1, 2], \"<<\": {}}")
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, text)
		file, err := read(t, path)
		if err == nil {
			set, _ := flags()
			require.NoError(t, file.Apply(set), "what was read can be applied")
		}
	})
}
