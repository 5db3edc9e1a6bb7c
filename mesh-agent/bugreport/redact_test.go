package bugreport_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/mesh-agent/bugreport"
)

const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgplantedplanted12
plantedplantedplantedplantedplantedplantedplantedplanted34567890
-----END PRIVATE KEY-----
`

func TestTextIsRedacted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a " + key + "b":  "a (redacted)\nb",
		"cut " + key[:60]: "cut (redacted)",
		"key " + base64.StdEncoding.EncodeToString([]byte(key)):         "key (redacted)",
		"token eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl, next": "token (redacted), next",
		"join with " + jointoken.Prefix + "planted_-planted":            "join with (redacted)",
		"-H 'Authorization: Bearer planted.planted' x":                  "-H 'Authorization: (redacted)' x",
		"authorization: Basic cGxhbnRlZA==\nnext: line":                 "authorization: (redacted)\nnext: line",
		"cookie: a=planted; b=planted\nnext":                            "cookie: (redacted)\nnext",
		"GET /x?access_token=planted&y=1":                               "GET /x?access_token=(redacted)&y=1",
		"password=planted user=me":                                      "password=(redacted) user=me",
		"postgres://user:planted@host/db":                               "postgres://user:(redacted)@host/db",
		`{"key":"x-api-key","value":"planted \"quoted\" planted"},1`:    `{"key":"x-api-key","value":"(redacted)"},1`,
		`{"value":"planted","key":"Authorization"}`:                     `{"value":"(redacted)","key":"Authorization"}`,
		`"private_key":{"inline_string":"planted"},"x":1`:               `"private_key":"(redacted)","x":1`,
		"Envoy answers /ready with PRE_INITIALIZING, cluster a|80||b.c": "Envoy answers /ready with PRE_INITIALIZING, cluster a|80||b.c",
		"--token-file /etc/mesh-agent/token":                            "--token-file /etc/mesh-agent/token",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----":  "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
	} {
		r := &bugreport.Redactor{}
		got := string(r.Text([]byte(text)))
		require.Equal(t, want, got)
		require.Equal(t, want, string(r.Text([]byte(got))), "once is enough")
	}
}

func TestEnvoysConfigurationIsRedacted(t *testing.T) {
	t.Parallel()
	document := `{
	 "secret": {"name": "default", "tls_certificate": {
	  "certificate_chain": {"inline_string": "public"}, "private_key": {"inline_bytes": "cGxhbnRlZA=="}, "password": {"inline_string": "planted"}}},
	 "generic_secret": {"secret": {"inline_string": "planted"}},
	 "session_ticket_keys": {"keys": [{"inline_bytes": "planted"}]},
	 "request_headers_to_add": [{"header": {"key": "Authorization", "raw_value": "planted"}}, {"header": {"key": "x-plain", "value": "stays"}}],
	 "initial_metadata": [{"key": "x-token", "value": "planted"}],
	 "headers": [{"name": "x-api-key", "string_match": {"exact": "planted"}}, {"name": ":path", "string_match": {"exact": "/stays"}}],
	 "users": {"inline_string": "me:planted"},
	 "client_secret": "planted", "token": "planted", "token_endpoint": {"uri": "https://stays/token"},
	 "inline_code": "local t = 'Bearer planted.planted'",
	 "plugin": {"configuration": {"value": "{\"password\": \"planted\"}"}},
	 "token_secret": {"name": "planted", "sds_config": {"path": "stays"}},
	 "count": 12345678901234567890
	}`
	r := &bugreport.Redactor{}
	got := string(r.JSON([]byte(document)))
	require.NotContains(t, got, "planted")
	require.NotContains(t, got, "cGxhbnRlZA")
	for _, stays := range []string{`"public"`, `"default"`, `"stays"`, `"/stays"`, `"https://stays/token"`, "12345678901234567890", `"x-api-key"`} {
		require.Contains(t, got, stays)
	}
	var tree any
	require.NoError(t, json.Unmarshal([]byte(got), &tree))
}

func TestKnownSecretsAreRedactedEverywhere(t *testing.T) {
	t.Parallel()
	r := &bugreport.Redactor{}
	r.AddSecret("an odd secret\n")
	r.AddSecret(key)
	r.AddSecret("")
	r.AddSecret("of") // too common to be a secret
	long := strings.Split(key, "\n")[2]
	text := "x an odd secret of " + long + " " + base64.StdEncoding.EncodeToString([]byte("ab"+long+"cd"))
	got := string(r.Text([]byte(text)))
	require.Contains(t, got, "x (redacted) of (redacted) ")
	require.NotContains(t, got, base64.StdEncoding.EncodeToString([]byte("ab" + long + "cd"))[8:40])
	require.JSONEq(t, `{"a": "(redacted)"}`, string(r.JSON([]byte(`{"a": "an odd secret"}`))))
}

func TestJournalHasNoAccessLogs(t *testing.T) {
	t.Parallel()
	const ours = `-- Boot 1 --
Nov 22 21:40:54 one systemd[1]: Started mesh-agent.service.
Nov 22 21:40:54 one mesh-agent[7]: time=2026-11-22T21:40:54Z level=INFO msg="Envoy started"
Nov 22 21:40:54 one mesh-agent[7]: {"time":"2026-11-22T21:40:54Z","level":"INFO","msg":"x"}
Nov 22 21:40:54 one mesh-agent[7]: [2026-11-22 21:40:54.123][8][info][main] [source/server.cc:1] starting
`
	const access = `Nov 22 21:40:54 one mesh-agent[7]: [2026-11-22T21:40:54.123Z] "GET /of/somebody HTTP/1.1" 200 - via_upstream
Nov 22 21:40:54 one mesh-agent[7]: {"path":"/of/somebody","method":"GET"}
`
	require.Equal(t, ours, string(bugreport.WithoutAccessLog([]byte(ours+access))))
}

func FuzzRedact(f *testing.F) {
	f.Add(`{"key":"authorization","value":"x"}`, "secret word")
	f.Add(key, key)
	f.Fuzz(func(t *testing.T, text, secret string) {
		r := &bugreport.Redactor{}
		r.AddSecret(secret)
		for _, got := range [][]byte{r.Text([]byte(text)), r.JSON([]byte(text))} {
			if word := strings.TrimSpace(secret); len(word) >= 6 && !strings.HasPrefix(word, "-----") && replaced(word) {
				require.NotContains(t, string(got), word)
			}
		}
		if json.Valid([]byte(text)) {
			require.True(t, json.Valid(r.JSON([]byte(text))))
		}
	})
}

// replaced reports whether a word is gone after redaction, apart from its replacement.
func replaced(word string) bool {
	const stands = "(redacted)"
	return !strings.Contains(stands, word)
}
