package schema

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

var (
	keyText    = regexp.MustCompile(`^[0-9]+$`)
	wholeText  = regexp.MustCompile(`^-?[0-9]+$`)
	numberText = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
)

// scalar checks a value that is no message. It returns its normal form, or what is wrong with it.
func scalar(f *Field, v any) (normal any, reason, hint string) {
	switch f.Type {
	case Struct:
		if _, ok := v.(map[string]any); !ok {
			return nil, wrongType("an object", v), ""
		}
		return v, "", ""
	case Bool:
		if _, ok := v.(bool); !ok {
			return nil, wrongType("a boolean", v), ""
		}
		return v, "", ""
	case Double:
		return number(f, v)
	case Duration:
		return duration(f, v)
	case Enum:
		return enum(f, v)
	case Int32, Int64, Uint32, Uint64:
		return integer(f, v)
	}
	s, ok := v.(string)
	if !ok {
		return nil, wrongType("a string", v), ""
	}
	if f.Type == Bytes {
		return binary(s)
	}
	if reason := stringReason(f, s); reason != "" {
		return s, reason, ""
	}
	if s == "" && !f.Repeated && !f.Map {
		return s, "", "" // an empty string means that the field is not set
	}
	reason, hint = f.Format.reason(s)
	return s, reason, hint
}

func stringReason(f *Field, s string) string {
	length := utf8.RuneCountInString(s)
	if length == 0 && f.MinLength != nil && *f.MinLength > 0 {
		return "must not be empty"
	}
	if reason := sizeReason(f.MinLength, f.MaxLength, length, "character"); reason != "" {
		return reason
	}
	if f.Pattern != "" && !compiled(f.Pattern).MatchString(s) {
		return fmt.Sprintf(`does not match the pattern %s, got "%s"`, f.Pattern, s)
	}
	return ""
}

var patterns sync.Map // of string to *regexp.Regexp

func compiled(pattern string) *regexp.Regexp {
	if p, ok := patterns.Load(pattern); ok {
		return p.(*regexp.Regexp)
	}
	p, _ := patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	return p.(*regexp.Regexp)
}

// binary reads base64 as protobuf's JSON does and returns it in the standard alphabet with padding.
func binary(s string) (normal any, reason, hint string) {
	alphabet := base64.RawStdEncoding
	if strings.ContainsAny(s, "-_") {
		alphabet = base64.RawURLEncoding
	}
	raw, err := alphabet.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return nil, fmt.Sprintf(`"%s" is not base64`, s), ""
	}
	return base64.StdEncoding.EncodeToString(raw), "", ""
}

func number(f *Field, v any) (normal any, reason, hint string) {
	text, ok := quotedNumber(v, numberText)
	value, err := strconv.ParseFloat(text, 64)
	if !ok || err != nil {
		return nil, wrongType("a number", v), ""
	}
	return json.Number(text), rangeReason(f, value, text), ""
}

func integer(f *Field, v any) (normal any, reason, hint string) {
	text, ok := quotedNumber(v, wholeText)
	if !ok {
		return nil, wrongType("an integer", v), ""
	}
	whole, ok := wholeNumber(text)
	if !ok {
		return nil, wrongType("an integer", v), ""
	}
	value, _ := strconv.ParseFloat(whole, 64)
	return json.Number(whole), rangeReason(f, value, text), ""
}

// quotedNumber returns the text of a number, or of a string in the form of one.
func quotedNumber(v any, form *regexp.Regexp) (string, bool) {
	switch v := v.(type) {
	case json.Number:
		return v.String(), true
	case string:
		return v, form.MatchString(v)
	}
	return "", false
}

// wholeNumber formats a whole number without fraction and exponent. Beyond 2^53 it takes only plain
// digits.
func wholeNumber(text string) (string, bool) {
	if wholeText.MatchString(text) {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			text = strconv.FormatInt(n, 10) // drops leading zeros, as in "007"
		}
		return text, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return "", false
	}
	return strconv.FormatFloat(f, 'f', -1, 64), true
}

func enum(f *Field, v any) (normal any, reason, hint string) {
	var name string
	switch v := v.(type) {
	case string:
		name = v
	case json.Number:
		text, ok := wholeNumber(v.String())
		if !ok || len(f.Numbers) == 0 {
			return nil, wrongType("a string", v), ""
		}
		name = text
		if n, err := strconv.Atoi(text); err == nil && slices.Contains(f.Numbers, n) {
			name = f.Enum[slices.Index(f.Numbers, n)]
		}
	default:
		return nil, wrongType("a string", v), ""
	}
	if !slices.Contains(f.Enum, name) {
		return nil, `unknown value "` + name + `"`, nearest.Hint(name, f.Enum, "one of ")
	}
	return name, "", ""
}

func rangeReason(f *Field, value float64, got string) string {
	low, high := f.Min != nil && value < *f.Min, f.Max != nil && value > *f.Max
	switch {
	case (low || high) && f.Min != nil && f.Max != nil:
		return "must be between " + plainNumber(*f.Min) + " and " + plainNumber(*f.Max) + ", got " + got
	case low:
		return "must be at least " + plainNumber(*f.Min) + ", got " + got
	case high:
		return "must be at most " + plainNumber(*f.Max) + ", got " + got
	}
	return ""
}

func plainNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// sizeReason reports that a list has too few or too many items, or a string too few or too many
// characters.
func sizeReason(least, most *int, n int, of string) string {
	switch {
	case least != nil && n < *least:
		return "must have at least " + plural(*least, of) + ", has " + strconv.Itoa(n)
	case most != nil && n > *most:
		return "must have at most " + plural(*most, of) + ", has " + strconv.Itoa(n)
	}
	return ""
}

func plural(n int, of string) string {
	if n != 1 {
		of += "s"
	}
	return strconv.Itoa(n) + " " + of
}

func wrongType(expected string, got any) string { return "expected " + expected + ", got " + noun(got) }

// shownText is a string that an error shows. A longer one would hide what is wrong with it.
var shownText = regexp.MustCompile(`^[^"\x00-\x1f\x7f]{0,40}$`)

// noun is a short value as it is written, and otherwise names its type.
func noun(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if shownText.MatchString(v) {
			return `"` + v + `"`
		}
		return "a string"
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return "null"
	case json.Number:
		if len(v) <= maxShown {
			return v.String()
		}
	}
	return "a number"
}

const maxShown = 40 // digits of a number
