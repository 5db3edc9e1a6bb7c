package bugreport

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// hidden stands where a secret was.
const hidden = "(redacted)"

// Redactor takes secrets out of what others may read. It takes out those that it was told of, wherever they are, and whatever looks like one; in
// doubt it takes out too much.
type Redactor struct{ known []string }

// shortestSecret keeps words that are in every text from being taken for a secret.
const shortestSecret = 6

// Know has it take out a secret, and each line of it: a key has several. In base64 it is the same secret.
func (r *Redactor) Know(secret string) {
	for _, each := range append(strings.Fields(secret), strings.TrimSpace(secret)) {
		if len(each) < shortestSecret || strings.HasPrefix(each, "-----") {
			continue
		}
		for _, form := range append(encoded(each), each) {
			if !slices.Contains(r.known, form) {
				r.known = append(r.known, form)
			}
		}
	}
	// The longest first, so that no rest of one is left by a shorter one in it.
	slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) })
}

// encoded is a secret in base64, as it is within something longer: there are three places where it may begin within a group of bytes.
func encoded(secret string) (all []string) {
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + secret))
		text = strings.TrimRight(text, "=")
		text = text[min(len(text), []int{0, 2, 3}[offset]):]
		if whole := len(text) - 1; whole >= shortestSecret { // the last letter depends on what comes after it
			all = append(all, text[:whole])
		}
	}
	return all
}

// Text is a text without secrets.
func (r *Redactor) Text(text []byte) []byte {
	for _, secret := range r.known {
		text = bytes.ReplaceAll(text, []byte(secret), []byte(hidden))
	}
	for _, p := range patterns {
		text = p.looks.ReplaceAll(text, []byte(p.with))
	}
	return text
}

var (
	// secretName is the last word of the name of a field that has a secret in it.
	secretName = regexp.MustCompile(`(?i)(?:^|[_.-])(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|credentials?|private[_-]?key|authorization|cookie|hmac|salt|users|signing[_-]?key)$`)
	// secretHeader is the name of a header whose value is one.
	secretHeader = regexp.MustCompile(`(?i)authorization|cookie|token|api-?key|secret|password|credential|signature|session`)
	// secretTree is the name of a field in which every value is one.
	secretTree = regexp.MustCompile(`^(?:private_key|private_key_provider|password|generic_secret|session_ticket_keys|token_secret|hmac_secret|users|pkcs12|ocsp_staple|credential|credentials)$`)
)

// JSON is a document without secrets. One that is none is treated as text.
func (r *Redactor) JSON(document []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return r.Text(document)
	}
	clean, err := json.MarshalIndent(r.tree(tree, false), "", " ")
	if err != nil {
		return []byte(hidden)
	}
	return clean
}

// tree goes through a document. In a secret part of it every text is one.
func (r *Redactor) tree(value any, secret bool) any {
	switch v := value.(type) {
	case string:
		return r.word(v, secret)
	case []any:
		for i := range v {
			v[i] = r.tree(v[i], secret)
		}
	case map[string]any:
		r.object(v, secret)
	}
	return value
}

func (r *Redactor) word(text string, secret bool) string {
	if secret && text != "" {
		return hidden
	}
	return string(r.Text([]byte(text)))
}

func (r *Redactor) object(fields map[string]any, secret bool) {
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
			fields[key] = r.tree(value, false)
		case isHeader && isValue[key], isText && secretName.MatchString(key):
			fields[key] = r.tree(value, true)
		default:
			fields[key] = r.tree(value, secret || secretTree.MatchString(key))
		}
	}
}

// isValue has the fields in which a header's value may be, beside its name.
var isValue = map[string]bool{
	"value": true, "raw_value": true, "exact_match": true, "prefix_match": true, "suffix_match": true, "contains_match": true,
	"string_match": true, "safe_regex_match": true, "default_value": true,
}
