package kinds

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds/schema"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Secret is the kind of certificates and keys. It is not in the registry, so code that loops over
// all kinds never touches a key: code that handles secrets names this kind.
var Secret = &Kind{
	Name: "Secret", Plural: "secrets", Group: core, Versions: versions("v1"), Namespaced: true, Message: "pgmesh.mcp.v1.Secret",
}

// WithSecrets returns every kind, and Secret.
func WithSecrets() []*Kind { return append(All(), Secret) }

// IsSecretName reports whether a user who types this for a kind means Secret.
func IsSecretName(word string) bool { return word == "secret" || word == "secrets" || word == "Secret" }

// secretVersion is the apiVersion of a Secret's document.
const secretVersion = "v1"

// secretEnvelope is the type of a whole Secret document.
var secretEnvelope = &schema.Type{Fields: []schema.Field{
	{Name: "apiVersion", Type: schema.String, Required: true, MinLength: &minOne},
	{Name: "kind", Type: schema.String, Required: true, MinLength: &minOne},
	{Name: "metadata", Type: schema.Struct},
	{Name: "type", Type: schema.String},
	{Name: "data", Type: schema.String, Map: true},
	{Name: "stringData", Type: schema.String, Map: true},
	{Name: "serviceAccounts", Type: schema.String, Repeated: true},
}}

func (p Parser) isSecret(apiVersion, kind string) bool {
	return p.Secrets && apiVersion == secretVersion && kind == Secret.Name
}

// readSecret reads the fields that a Secret has in place of a spec. stringData overrides data.
func (d *draft) readSecret(r *Resource, parts map[string]any) *Document {
	secret := &mcpv1.Secret{Type: credential.Opaque, Data: map[string][]byte{}}
	if written, _ := parts["type"].(string); written != "" {
		secret.Type = written
	}
	encoded := stringMap(parts["data"])
	for _, name := range slices.Sorted(maps.Keys(encoded)) {
		value, err := base64.StdEncoding.DecodeString(encoded[name])
		if err != nil {
			d.add(schema.Member("data", name), "is not base64", "stringData takes plain text")
			continue
		}
		secret.Data[name] = value
	}
	for name, value := range stringMap(parts["stringData"]) {
		secret.Data[name] = []byte(value)
	}
	accounts, _ := parts["serviceAccounts"].([]any)
	for _, a := range accounts {
		account, _ := a.(string)
		secret.ServiceAccounts = append(secret.ServiceAccounts, account)
	}
	if len(d.violations) == 0 {
		d.violations = append(d.violations, CheckSecret(secret)...)
	}
	if r.Name == "" {
		return nil
	}
	r.Spec = SpecOf(secret)
	return &Document{Resource: r, Spec: SecretJSON(secret), ResourceVersion: d.resourceVersion, UID: d.uid}
}

// CheckSecret returns what is wrong with a secret. Violations never repeat its values.
func CheckSecret(s *mcpv1.Secret) (wrong []Violation) {
	for _, p := range credential.Check(s.GetType(), s.GetData()) {
		path := "type"
		if p.Key != "" {
			path = schema.Member("data", p.Key)
		}
		wrong = append(wrong, Violation{Path: path, Reason: p.Reason, Hint: p.Hint})
	}
	for i, account := range s.GetServiceAccounts() {
		if !serviceAccount.MatchString(account) {
			wrong = append(wrong, Violation{
				Path: fmt.Sprintf("serviceAccounts[%d]", i), Reason: fmt.Sprintf("%q cannot be a service account", account),
				Hint: `at most 253 letters, digits, "-", "." and "_"; write * for all gateways of the namespace`,
			})
		}
	}
	return wrong
}

var serviceAccount = regexp.MustCompile(`^([-._A-Za-z0-9]{1,253}|\*)$`)

// SecretJSON writes a secret as its document has it, from type on.
func SecretJSON(s *mcpv1.Secret) json.RawMessage {
	text, err := json.Marshal(struct {
		Type            string            `json:"type"`
		Data            map[string][]byte `json:"data"`
		ServiceAccounts []string          `json:"serviceAccounts,omitempty"`
	}{s.GetType(), s.GetData(), s.GetServiceAccounts()})
	if err != nil {
		panic("encode a secret: " + err.Error()) // strings and bytes always encode
	}
	return text
}

// AuthoritySuffix ends the name by which proxies ask for the authorities that go with a credential, as
// in Istio.
const AuthoritySuffix = "-cacert"
