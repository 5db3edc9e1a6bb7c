package consul

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// The comparisons of Consul's filters that labels can say. A text may stand in quotes of either sort.
const text = "(\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[-A-Za-z0-9_./]+)"

var (
	comparedMeta = regexp.MustCompile(`^(?:Service\.)?(Meta|Node\.Meta|NodeMeta)(?:\.([-A-Za-z0-9_]+)|\["([^"]+)"\])\s*==\s*` + text + `$`)
	nodesMeta    = regexp.MustCompile(`^Node\.Meta`)
	hasTag       = regexp.MustCompile(`^` + text + `\s+in\s+Service\.Tags$`)
	containsTag  = regexp.MustCompile(`^Service\.Tags\s+contains\s+` + text + `$`)
	conjunction  = regexp.MustCompile(`\s+and\s+`)
)

// labelsOfFilter are the labels that an instance has if the filter of a subset takes it, and only then.
func labelsOfFilter(filter string) (map[string]string, bool) {
	out := map[string]string{}
	if strings.TrimSpace(filter) == "" {
		return out, true
	}
	for _, part := range conjunction.Split(unbracketed(filter), -1) {
		key, value, said := compared(unbracketed(part))
		if before, there := out[key]; !said || there && before != value {
			return nil, false
		}
		out[key] = value
	}
	return out, true
}

// unbracketed takes away one pair of brackets around all, if there are no others.
func unbracketed(filter string) string {
	filter = strings.TrimSpace(filter)
	if inner, is := strings.CutPrefix(filter, "("); is && strings.Count(filter, "(") == 1 && strings.HasSuffix(inner, ")") {
		return strings.TrimSpace(strings.TrimSuffix(inner, ")"))
	}
	return filter
}

// compared is the label that one comparison asks for.
func compared(part string) (key, value string, said bool) {
	if m := comparedMeta.FindStringSubmatch(part); m != nil {
		key, value = cmp.Or(m[2], m[3]), unquoted(m[4])
		if nodesMeta.MatchString(part) || m[1] != "Meta" {
			key = nodePrefix + key
		}
		return key, value, value != "" // a label that is missing is another thing than one that is empty
	}
	m := hasTag.FindStringSubmatch(part)
	if m == nil {
		m = containsTag.FindStringSubmatch(part)
	}
	if m == nil {
		return "", "", false
	}
	key, value = labelOfTag(unquoted(m[1]))
	return key, value, true
}

func unquoted(text string) string {
	if out, err := strconv.Unquote(text); err == nil {
		return out
	}
	return text
}
