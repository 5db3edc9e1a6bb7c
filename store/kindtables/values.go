package kindtables

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// jsonTypes are the JSON types of values that need no further check.
var jsonTypes = map[string]string{
	schema.Message: "object", schema.Struct: "object", schema.Bool: "boolean",
	schema.String: "string", schema.Enum: "string", schema.Duration: "string", schema.Bytes: "string",
	schema.Int32: "number", schema.Int64: "number", schema.Uint32: "number", schema.Uint64: "number", schema.Double: "number",
}

// value is the predicate about a value of a field, or about each in its list or map, after its JSON
// type was tested.
func value(f *schema.Field) string {
	switch f.Type {
	case schema.String:
		return text(f)
	case schema.Enum:
		return isOneOf(f.Enum)
	case schema.Duration:
		return matches(durations(f))
	case schema.Double:
		return allOf(bound(">=", f.Min), bound("<=", f.Max))
	case schema.Int32, schema.Int64, schema.Uint32, schema.Uint64:
		return allOf(cmp.Or(bound(">=", f.Min), "@ >= -"+exactIntegers), cmp.Or(bound("<=", f.Max), "@ <= "+exactIntegers), "@.floor() == @")
	}
	return ""
}

// exactIntegers is the limit up to which a number with a zero fraction counts as an integer.
const exactIntegers = "9007199254740992"

func bound(operator string, n *float64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("@ %s %s", operator, strconv.FormatFloat(*n, 'f', -1, 64))
}

func text(f *schema.Field) string {
	var low, pattern, format string
	if f.MinLength != nil && *f.MinLength > 0 {
		low = matches(fmt.Sprintf("^.{%d}", *f.MinLength))
		if *f.MinLength == 1 {
			low = `@ != ""`
		}
	}
	if f.Pattern != "" {
		pattern = matches(f.Pattern)
	}
	if f.Format != nil {
		format = parenthesised(syntax(f.Format))
		if !f.Repeated && !f.Map {
			format = parenthesised(anyOf(`@ == ""`, format)) // is what a field is that was not set
		}
	}
	return allOf(low, short(f.MaxLength), pattern, format)
}

// short holds for strings that are not too long. Longer limits are checked in detail, because their
// pattern would be large.
func short(most *int) string {
	if most == nil {
		return ""
	}
	return not(matches(fmt.Sprintf(".{%d}", min(*most, shortTextLimit-1)+1)))
}

// shortTextLimit is a length in characters that few strings exceed.
const shortTextLimit = 64

// syntax holds for strings of a format, as far as patterns can tell.
func syntax(f *schema.Format) string {
	if f == nil {
		return ""
	}
	other := syntax(schema.Formats()[f.Or])
	if f.Function != "" {
		return cmp.Or(other, alwaysFalse)
	}
	var pattern, unlike, most string
	if f.Pattern != "" {
		pattern = matches(f.Pattern)
	}
	if f.Unlike != "" {
		unlike = not(matches(f.Unlike))
	}
	if f.Max != nil {
		most = short(f.Max)
	} else if f.Long != "" {
		most = not(matches(fmt.Sprintf(".{%d}", shortTextLimit)))
	}
	return parenthesised(anyOf(parenthesised(allOf(pattern, unlike, most)), other))
}

// durations is a pattern of the durations that a field may have. They have one unit, and zero has
// one form, so that rules can recognise it.
func durations(f *schema.Field) string {
	low, high, precision := span(f.MinDuration, 0), span(f.MaxDuration, maxDuration), span(f.Precision, 1)
	var forms []string
	for _, unit := range []string{"ms", "s", "m", "h"} {
		size := span("1"+unit, 0)
		digits := 6
		for digits > 0 && time.Duration(math.Pow10(digits))*size > high {
			digits--
		}
		if digits > 0 && size >= low && size%precision == 0 {
			forms = append(forms, fmt.Sprintf("[1-9][0-9]{0,%d}%s", digits-1, unit))
		}
	}
	if low <= time.Millisecond && time.Millisecond%precision == 0 && high >= 1000*time.Second {
		forms = append(forms, `[0-9]{1,3}\.[0-9]{0,2}[1-9]s`)
	}
	if low <= 0 {
		forms = append(forms, "0s")
	}
	return "^(" + strings.Join(forms, "|") + ")$"
}

// maxDuration is a limit for durations of one unit, safe for 64-bit nanoseconds.
const maxDuration = 200 * 365 * 24 * time.Hour

func span(text string, otherwise time.Duration) time.Duration {
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err) // the tables of the programs have it
	}
	return d
}
