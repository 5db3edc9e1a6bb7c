package bugreport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// hidden replaces secrets.
const hidden = "(redacted)"

// Redactor removes secrets: those it was given, wherever they are, and whatever looks like one.
// When in doubt, it removes too much.
type Redactor struct{ secrets []string }

// minSecretLength keeps common words from being taken for secrets.
const minSecretLength = 6

// AddSecret adds a secret and each of its lines, plain and in base64.
func (r *Redactor) AddSecret(secret string) {
	for _, each := range append(strings.Fields(secret), strings.TrimSpace(secret)) {
		if len(each) < minSecretLength || strings.HasPrefix(each, "-----") {
			continue
		}
		for _, form := range append(encoded(each), each) {
			if !slices.Contains(r.secrets, form) {
				r.secrets = append(r.secrets, form)
			}
		}
	}
	// The longest first: replacing a shorter one within it would leave the rest.
	slices.SortFunc(r.secrets, func(a, b string) int { return len(b) - len(a) })
}

// encoded returns a secret as it appears within longer base64 text. It depends on the offset in a
// group of three bytes.
func encoded(secret string) (all []string) {
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + secret))
		text = strings.TrimRight(text, "=")
		text = text[min(len(text), []int{0, 2, 3}[offset]):]
		if whole := len(text) - 1; whole >= minSecretLength { // the last letter depends on the byte that follows
			all = append(all, text[:whole])
		}
	}
	return all
}

// Text redacts a text.
func (r *Redactor) Text(text []byte) []byte {
	for _, secret := range r.secrets {
		text = bytes.ReplaceAll(text, []byte(secret), []byte(hidden))
	}
	for _, p := range patterns {
		text = p.expression.ReplaceAll(text, []byte(p.replacement))
	}
	return text
}

var (
	// secretName matches the names of fields with secrets.
	secretName = regexp.MustCompile(`(?i)(?:^|[_.-])(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|credentials?|private[_-]?key|authorization|cookie|hmac|salt|users|signing[_-]?key)$`)
	// secretHeader matches the names of headers with secrets.
	secretHeader = regexp.MustCompile(`(?i)authorization|cookie|token|api-?key|secret|password|credential|signature|session`)
	// secretTree matches the names of fields in which every value is secret.
	secretTree = regexp.MustCompile(`^(?:private_key|private_key_provider|password|generic_secret|session_ticket_keys|token_secret|hmac_secret|users|pkcs12|ocsp_staple|credential|credentials)$`)
)

// JSON redacts a document. Invalid JSON is treated as text.
func (r *Redactor) JSON(document []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return r.Text(document)
	}
	clean, err := json.MarshalIndent(r.redactTree(tree, false), "", " ")
	if err != nil {
		return []byte(hidden)
	}
	return clean
}

// redactTree redacts a value. In a secret part, every string is one.
func (r *Redactor) redactTree(value any, secret bool) any {
	switch v := value.(type) {
	case string:
		return r.redactString(v, secret)
	case []any:
		for i := range v {
			v[i] = r.redactTree(v[i], secret)
		}
	case map[string]any:
		r.redactObject(v, secret)
	}
	return value
}

func (r *Redactor) redactString(text string, secret bool) string {
	if secret && text != "" {
		return hidden
	}
	return string(r.Text([]byte(text)))
}

func (r *Redactor) redactObject(fields map[string]any, secret bool) {
	header := ""
	for _, key := range []string{"key", "name", "header", "header_name"} {
		if name, is := fields[key].(string); is && header == "" {
			header = name
		}
	}
	isHeader := secretHeader.MatchString(header)
	for key, value := range fields {
		_, isText := value.(string)
		switch {
		case key == "@type", key == "filename", key == "sds_config":
			fields[key] = r.redactTree(value, false)
		case isHeader && isValue[key], isText && secretName.MatchString(key):
			fields[key] = r.redactTree(value, true)
		default:
			fields[key] = r.redactTree(value, secret || secretTree.MatchString(key))
		}
	}
}

// isValue lists the fields that may hold a header's value beside its name.
var isValue = map[string]bool{
	"value": true, "raw_value": true, "exact_match": true, "prefix_match": true, "suffix_match": true, "contains_match": true,
	"string_match": true, "safe_regex_match": true, "default_value": true,
}
