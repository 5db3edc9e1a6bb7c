package envoy_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// The generated methods are the reference: on random messages both must find the same.
func TestFieldRulesMatchGeneratedMethods(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	found := map[string]int{}
	for _, of := range withRules() {
		for range 30 {
			m := of.New()
			fill(r, m, 3)
			want := generated(m.Interface())
			require.Equal(t, want, read(m.Interface()), "%s", m.Descriptor().FullName())
			for _, one := range want {
				_, reason, _ := strings.Cut(one, ": ")
				found[reason]++
			}
		}
	}
	require.Greater(t, len(found), 100, "the messages break few of the rules: %v", found)
}

// withRules lists the messages of Envoy's API that have rules, sorted by name.
func withRules() []protoreflect.MessageType {
	var all []protoreflect.MessageType
	protoregistry.GlobalTypes.RangeMessages(func(of protoreflect.MessageType) bool {
		if _, ok := of.Zero().Interface().(interface{ ValidateAll() error }); ok {
			all = append(all, of)
		}
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.MessageType) int {
		return strings.Compare(string(a.Descriptor().FullName()), string(b.Descriptor().FullName()))
	})
	return all
}

// read returns what fieldRules finds.
func read(m proto.Message) []string {
	found := []string{}
	for _, p := range envoy.FieldRules(m) {
		path := regexp.MustCompile(`\["([^"]*)"\]`).ReplaceAllString(p.Path, "[$1]")
		found = append(found, strings.ToLower(strings.ReplaceAll(path, "_", ""))+": "+p.Reason)
	}
	slices.Sort(found)
	return found
}

// generated returns what the generated methods find.
func generated(m proto.Message) []string {
	found := []string{}
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		found = append(found, flat("", m.ProtoReflect().Descriptor(), v.ValidateAll())...)
	}
	slices.Sort(found)
	return found
}

func flat(path string, d protoreflect.MessageDescriptor, err error) []string {
	var several interface{ AllErrors() []error }
	found := []string{}
	if errors.As(err, &several) {
		for _, one := range several.AllErrors() {
			found = append(found, flat(path, d, one)...)
		}
		return found
	}
	var one interface {
		Field() string
		Reason() string
		Cause() error
	}
	if !errors.As(err, &one) {
		return nil
	}
	name, _, _ := strings.Cut(one.Field(), "[")
	field, choices := member(d, name)
	at := regexp.MustCompile(`\[([a-z][a-z0-9]*)\]$`).ReplaceAllString(one.Field(), ".$1")
	at = strings.TrimPrefix(path+"."+strings.ToLower(strings.ReplaceAll(at, "_", "")), ".")
	switch {
	case field == nil:
		return []string{path + ": " + one.Reason() + ": one of " + choices}
	case one.Reason() != "embedded message failed validation":
		return []string{at + ": " + one.Reason()}
	case field.IsMap():
		return flat(at, field.MapValue().Message(), one.Cause())
	}
	return flat(at, field.Message(), one.Cause())
}

// member finds the field, or the fields of the oneof, with this name in Go.
func member(d protoreflect.MessageDescriptor, inGo string) (field protoreflect.FieldDescriptor, choices string) {
	same := func(name protoreflect.Name) bool {
		return strings.EqualFold(strings.ReplaceAll(string(name), "_", ""), strings.ReplaceAll(inGo, "_", ""))
	}
	for i := range d.Oneofs().Len() {
		if o := d.Oneofs().Get(i); same(o.Name()) && !o.IsSynthetic() {
			var names []string
			for k := range o.Fields().Len() {
				names = append(names, o.Fields().Get(k).TextName())
			}
			choices = strings.Join(names, ", ")
		}
	}
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); same(f.Name()) {
			field = f
		}
	}
	return field, choices
}

// fill sets about half of the fields, down to a depth, to values around the limits.
func fill(r *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if r.IntN(2) == 0 {
			continue
		}
		switch {
		case f.IsMap() && f.MapKey().Kind() == protoreflect.StringKind:
			for _, key := range []string{"", "plain", "1 2"}[:r.IntN(4)] {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(key).MapKey(), some(r, f.MapValue(), m.NewField(f).Map().NewValue, depth))
			}
		case f.IsMap():
		case f.IsList():
			for range []int{0, 0, 1, 2, 5}[r.IntN(5)] {
				m.Mutable(f).List().Append(some(r, f, m.NewField(f).List().NewElement, depth))
			}
		default:
			m.Set(f, some(r, f, func() protoreflect.Value { return m.NewField(f) }, depth))
		}
	}
}

var (
	texts   = []string{"", "a", "ab", "é", "a b", "/a", "a/", ":path", "%-%", "a\n", "\x00", "\x01", "GET", "http", "x.mmdb", strings.Repeat("é", 200), strings.Repeat("a", 70000)}
	numbers = []float64{0, 1, 2, 3, 5, 10, 16, 50, 64, 99, 100, 101, 255, 256, 599, 600, 1000, 1024, 4096, 65535, 65536, 131072, 1 << 24, 1<<31 - 1}
	floats  = []float64{-1, 0, 0.001, 0.5, 1, 1.5, 2, 100, 101, math.NaN(), math.Inf(1)}
	times   = []time.Duration{-time.Second, 0, 1, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond, time.Second, time.Minute, time.Hour, 1000 * time.Hour}
)

func some(r *rand.Rand, f protoreflect.FieldDescriptor, empty func() protoreflect.Value, depth int) protoreflect.Value {
	number := numbers[r.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		value := empty()
		switch into := value.Message().Interface().(type) {
		case *durationpb.Duration:
			proto.Merge(into, durationpb.New(times[r.IntN(len(times))]))
		default:
			if depth > 0 {
				fill(r, value.Message(), depth-1)
			}
		}
		return value
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts[r.IntN(len(texts))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(texts[r.IntN(len(texts))]))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(f.Enum().Values().Len() + 1)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(number) - 1)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(number) - 1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(floats[r.IntN(len(floats))]))
	default:
		return protoreflect.ValueOfFloat64(floats[r.IntN(len(floats))])
	}
}

// known lists the kinds of rules that fieldRules knows. A rule of a newer API would go unchecked.
var known = regexp.MustCompile(`^((repeated\.items|map\.keys)\.)?(bool\.const|bytes\.m(ax|in)_len|enum\.(defined_only|not_in)` +
	`|(double|float|int32|uint32|uint64|duration)\.[gl]te?|uint32\.ignore_empty` +
	`|string\.(ignore_empty|in|m(ax|in)_(bytes|len)|pattern|prefix|suffix|strict|well_known_regex))$` +
	`|^(duration|any|message)\.required$|^message\.skip$|^repeated\.(m(ax|in)_items|unique)$|^map\.m(ax|in)_pairs$`)

func TestEveryRuleOfTheAPIIsKnown(t *testing.T) {
	t.Parallel()
	n := 0
	for _, of := range withRules() {
		d := of.Descriptor()
		require.False(t, proto.GetExtension(d.Options(), validate.E_Disabled).(bool), "%s has rules that do not count", d.FullName())
		require.False(t, proto.GetExtension(d.Options(), validate.E_Ignored).(bool), "%s has rules that do not count", d.FullName())
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			if !proto.HasExtension(f.Options(), validate.E_Rules) {
				continue
			}
			for _, rule := range named("", proto.GetExtension(f.Options(), validate.E_Rules).(proto.Message).ProtoReflect()) {
				require.Regexp(t, known, rule, "a rule of %s", f.FullName())
				n++
			}
		}
	}
	require.Greater(t, n, 1000)
}

// named lists the kinds of rules in a message of rules.
func named(path string, rules protoreflect.Message) []string {
	var all []string
	rules.Range(func(f protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		at := strings.TrimPrefix(path+"."+string(f.Name()), ".")
		if f.Message() != nil && !f.IsList() && f.ParentFile() == f.Message().ParentFile() {
			all = append(all, named(at, value.Message())...)
		} else {
			all = append(all, at)
		}
		return true
	})
	return all
}
