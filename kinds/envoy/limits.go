package envoy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// scalar returns the rules that a value breaks. It knows the rules that Envoy's API uses, which are
// not all there can be.
func scalar(rules *validate.FieldRules, f protoreflect.FieldDescriptor, value protoreflect.Value) []string {
	switch of := rules.GetType().(type) {
	case *validate.FieldRules_String_:
		return text(of.String_, value.String())
	case *validate.FieldRules_Bytes:
		return []string{size(len(value.Bytes()), "bytes", of.Bytes.MinLen, of.Bytes.MaxLen)}
	case *validate.FieldRules_Enum:
		return []string{notIn(of.Enum, f.Enum(), value.Enum()), defined(of.Enum, f.Enum(), value.Enum())}
	case *validate.FieldRules_Bool:
		if of.Bool.Const != nil && value.Bool() != of.Bool.GetConst() {
			return []string{fmt.Sprintf("value must equal %v", of.Bool.GetConst())}
		}
		return nil
	}
	return []string{numeric(rules, value)}
}

func numeric(rules *validate.FieldRules, value protoreflect.Value) string {
	switch of := rules.GetType().(type) {
	case *validate.FieldRules_Double:
		return outside(of.Double.Gt, of.Double.Gte, of.Double.Lt, of.Double.Lte, value.Float())
	case *validate.FieldRules_Float:
		return outside(of.Float.Gt, of.Float.Gte, of.Float.Lt, of.Float.Lte, float32(value.Float()))
	case *validate.FieldRules_Int32:
		return outside(of.Int32.Gt, of.Int32.Gte, of.Int32.Lt, of.Int32.Lte, int32(value.Int()))
	case *validate.FieldRules_Uint32:
		if of.Uint32.GetIgnoreEmpty() && value.Uint() == 0 {
			return ""
		}
		return outside(of.Uint32.Gt, of.Uint32.Gte, of.Uint32.Lt, of.Uint32.Lte, uint32(value.Uint()))
	case *validate.FieldRules_Uint64:
		return outside(of.Uint64.Gt, of.Uint64.Gte, of.Uint64.Lt, of.Uint64.Lte, value.Uint())
	}
	return ""
}

func notIn(rules *validate.EnumRules, d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if !slices.Contains(rules.GetNotIn(), int32(n)) {
		return ""
	}
	var names []protoreflect.Name
	for _, not := range rules.GetNotIn() {
		names = append(names, d.Values().ByNumber(protoreflect.EnumNumber(not)).Name())
	}
	return fmt.Sprintf("value must not be in list %v", names)
}

func defined(rules *validate.EnumRules, d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if rules.GetDefinedOnly() && d.Values().ByNumber(n) == nil {
		return "value must be one of the defined enum values"
	}
	return ""
}

func text(rules *validate.StringRules, s string) []string {
	if rules.GetIgnoreEmpty() && s == "" {
		return nil
	}
	var wrong []string
	if rules.GetIn() != nil && !slices.Contains(rules.GetIn(), s) {
		wrong = append(wrong, fmt.Sprintf("value must be in list %v", rules.GetIn()))
	}
	wrong = append(wrong, size(utf8.RuneCountInString(s), "runes", rules.MinLen, rules.MaxLen), size(len(s), "bytes", rules.MinBytes, rules.MaxBytes))
	if !strings.HasPrefix(s, rules.GetPrefix()) {
		wrong = append(wrong, fmt.Sprintf("value does not have prefix %q", rules.GetPrefix()))
	}
	if !strings.HasSuffix(s, rules.GetSuffix()) {
		wrong = append(wrong, fmt.Sprintf("value does not have suffix %q", rules.GetSuffix()))
	}
	if pattern := patternOf(rules); pattern != "" && !compiled(pattern).MatchString(s) {
		wrong = append(wrong, fmt.Sprintf("value does not match regex pattern %q", pattern))
	}
	return wrong
}

// The patterns of header names and values, and the looser one of rules that are not strict.
const (
	headerName  = "^:?[0-9a-zA-Z!#$%&'*+-.^_|~\x60]+$"
	headerValue = "^[^\u0000-\u0008\u000A-\u001F\u007F]*$"
	oneLine     = "^[^\u0000\u000A\u000D]*$"
)

func patternOf(rules *validate.StringRules) string {
	switch known := rules.GetWellKnownRegex(); {
	case known == validate.KnownRegex_UNKNOWN:
		return rules.GetPattern()
	case !rules.GetStrict():
		return oneLine
	case known == validate.KnownRegex_HTTP_HEADER_NAME:
		return headerName
	default:
		return headerValue
	}
}

var patterns sync.Map // a *regexp.Regexp for each pattern used so far; the API has a dozen

func compiled(pattern string) *regexp.Regexp {
	if known, ok := patterns.Load(pattern); ok {
		return known.(*regexp.Regexp)
	}
	known, _ := patterns.LoadOrStore(pattern, regexp.MustCompile(pattern))
	return known.(*regexp.Regexp)
}

// size explains why a length is out of bounds.
func size(n int, unit string, least, most *uint64) string {
	length := uint64(n)
	tooShort, tooLong := least != nil && length < *least, most != nil && length > *most
	switch {
	case !tooShort && !tooLong:
		return ""
	case most == nil:
		return fmt.Sprintf("value length must be at least %d %s", *least, unit)
	case least == nil:
		return fmt.Sprintf("value length must be at most %d %s", *most, unit)
	case *least == *most:
		return fmt.Sprintf("value length must be %d %s", *least, unit)
	}
	return fmt.Sprintf("value length must be between %d and %d %s, inclusive", *least, *most, unit)
}

// number explains why a count is out of bounds. A limit of 0 is no limit.
func number(n int, of string, least, most uint64) string {
	count := uint64(n)
	switch {
	case count >= least && (most == 0 || count <= most):
		return ""
	case most == 0:
		return fmt.Sprintf("value must contain at least %d %s(s)", least, of)
	case least == 0:
		return fmt.Sprintf("value must contain no more than %d %s(s)", most, of)
	case least == most:
		return fmt.Sprintf("value must contain exactly %d %s(s)", least, of)
	}
	return fmt.Sprintf("value must contain between %d and %d %ss, inclusive", least, most, of)
}

func duration(rules *validate.DurationRules, d *durationpb.Duration) string {
	if d.CheckValid() != nil {
		return "value is not a valid duration"
	}
	limit := func(d *durationpb.Duration) *time.Duration {
		if d == nil {
			return nil
		}
		limit := d.AsDuration()
		return &limit
	}
	return outside(limit(rules.GetGt()), limit(rules.GetGte()), limit(rules.GetLt()), limit(rules.GetLte()), d.AsDuration())
}

// outside explains why a value is out of range. If the upper limit is not above the lower one, the
// values between them are excluded instead.
func outside[T int32 | uint32 | uint64 | float32 | float64 | time.Duration](gt, gte, lt, lte *T, value T) string {
	low, high, opening, closing := gt, lt, "(", ")"
	if gt == nil {
		low, opening = gte, "["
	}
	if lt == nil {
		high, closing = lte, "]"
	}
	below := low != nil && (value < *low || value == *low && gt != nil)
	above := high != nil && (value > *high || value == *high && lt != nil)
	switch {
	case low != nil && high != nil && *high <= *low:
		if below && above {
			return fmt.Sprintf("value must be outside range %s%v, %v%s", opposite[closing], *high, *low, opposite[opening])
		}
		return ""
	case !below && !above:
		return ""
	case low != nil && high != nil:
		return fmt.Sprintf("value must be inside range %s%v, %v%s", opening, *low, *high, closing)
	case below:
		return "value must be greater than " + orEqual[opening] + fmt.Sprint(*low)
	default:
		return "value must be less than " + orEqual[closing] + fmt.Sprint(*high)
	}
}

// opposite maps a bracket of the excluded range to that of the allowed one. orEqual says whether
// the limit is allowed.
var (
	opposite = map[string]string{")": "[", "]": "(", "(": "]", "[": ")"}
	orEqual  = map[string]string{"[": "or equal to ", "]": "or equal to "}
)
