package bugreport

import "regexp"

// pattern matches a kind of secret. Replacement is a regexp template.
type pattern struct {
	what        string
	expression  *regexp.Regexp
	replacement string
}

const (
	// secretWords are the endings of names of headers, settings and variables with secrets.
	secretWords      = `authorization|cookie|token|api[_-]?key|secret|passw(?:or)?d|passphrase|access[_-]?key|account[_-]?key|credential|private[_-]?key|signature`
	secretAssignment = `(?:` + secretWords + `)s?\\?["']?\s*[:=]\s*`
	headerKeys       = `"(?:key|name|header|header_name)"\s*:\s*"[^"]*(?:` + secretWords + `)[^"]*"`
	headerValue      = `"(?:value|raw_value|exact|exact_match|prefix_match|default_value)"\s*:\s*"`
)

// patterns are applied in this order: first secrets that have a shape of their own, then those
// named by what precedes them.
var patterns = []pattern{
	shape("a private key", `-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)`),
	// The encoding of "-----BEGIN" always begins with these letters.
	shape("a private key in base64", `\bLS0tLS1CRUdJTi(?:BQUklWQVRF|BSU0EgUFJJVkFURS|BFQyBQUklWQVRF|BFTkNSWVBURUQgUFJJVkFURS|BPUEVOU1NIIFBSSVZBVE)[A-Za-z0-9+/=_-]*`),
	shape("a key of age", `\bAGE-SECRET-KEY-1[A-Z0-9]+`),
	shape("a join token", `\bpgmesh_join_[A-Za-z0-9_.~+/=-]+`),
	// Metrics have the same prefix, but no capital letters.
	shape("a bearer token of the mesh", `\bpgmesh_[a-z0-9_-]{0,40}[A-Z][A-Za-z0-9_-]{8,}`),
	shape("a web token", `\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*`),
	shape("GitHub", `\b(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})`),
	shape("GitLab", `\bgl(?:pat|dt|rt|ptt|cbt|soat|agent|ft|imt|oas|ffct)-[A-Za-z0-9_.-]{20,}`),
	shape("AWS", `\bA(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}\b`),
	shape("Vault", `\bhv[bsr]\.[A-Za-z0-9_-]{20,}`),
	shape("Slack", `\b(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}`),
	shape("a hook of Slack", `\bhooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]+`),
	shape("Google", `\b(?:AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9._-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}|1//0[A-Za-z0-9_-]{20,})`),
	shape("Stripe", `\b(?:(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,})`),
	shape("OpenAI, Anthropic", `\bsk-[A-Za-z0-9_-]{20,}`),
	shape("registries of packages and images", `\b(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|rubygems_[a-f0-9]{40,}|dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,})`),
	shape("other clouds and services", `\b(?:do[opr]_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{30,}|glsa_[A-Za-z0-9_]{30,}|dapi[a-f0-9]{32}|atlasv1\.[A-Za-z0-9_-]{30,})`),
	after("a bearer", `(?i)\b(bearer +)[A-Za-z0-9._~+/=-]{6,}`),
	// What follows as an ordinary word has only small letters.
	after("a password of HTTP", `\b((?i:basic|negotiate) +)[a-z]*[A-Z0-9+/][A-Za-z0-9+/=]{3,}`),
	after("a digest", `(?i)\b(digest +)\w+ *=[^\n]+`),
	// Headers in Envoy's configuration, wherever it is printed.
	after("a header of Envoy's", `(?i)(`+headerKeys+`\s*,\s*`+headerValue+`)(?:[^"\\]|\\.)*`),
	{"a header of Envoy's, value first", regexp.MustCompile(`(?i)(` + headerValue + `)(?:[^"\\]|\\.)*("\s*,\s*` + headerKeys + `)`), "${1}" + hidden + "${2}"},
	{"a key of Envoy's", regexp.MustCompile(`(?i)("private_key"\s*:\s*)\{[^{}]*\}`), `${1}"` + hidden + `"`},
	after("authorization", `(?i)(authorization["']?\s*[:=]\s*["']?)[^\s,;"'\]}]+(?: [^\s,;"'\]}]+)?`),
	after("cookies", `(?i)(cookie["']?\s*[:=]\s*["']?)[^\n"'\]}]+`),
	after("what has a name, in quotes", `(?i)(`+secretAssignment+`")(?:[^"\\]|\\.)+`),
	after("what has a name, in single quotes", `(?i)(`+secretAssignment+`')(?:[^'\\]|\\.)+`),
	after("what has a name, in escaped quotes", `(?i)(`+secretAssignment+`\\")[^"\\]+`),
	after("what has a name", `(?i)(`+secretAssignment+`["']?)[^\s,;&"'\]}\\]+`),
	after("a flag", `(?i)(\s--?(?:[a-z0-9]+-)*(?:token|passw(?:or)?d|passphrase|secret|api-?key|access-?key)[ \t]+["']?)[^\s"'-][^\s"']*`),
	// Up to the last possible @, as passwords may contain some.
	after("a URL", `\b([a-z][a-z0-9+.-]*://[^\s/:@"'<>]*:)[^\s"'<>/]+(@)`),
	after("a URL whose user is a secret", `\b([a-z][a-z0-9+.-]*://)[A-Za-z0-9_-]{20,}(@)`),
}

// shape is a secret with a recognizable form.
func shape(of, expression string) pattern { return pattern{of, regexp.MustCompile(expression), hidden} }

// after is a secret recognized by what precedes it, the first group, and optionally by what
// follows, the second.
func after(of, expression string) pattern {
	compiled := regexp.MustCompile(expression)
	if compiled.NumSubexp() > 1 {
		return pattern{of, compiled, "${1}" + hidden + "${2}"}
	}
	return pattern{of, compiled, "${1}" + hidden}
}
