// Package fields reads objects of which a part is known, and knows afterwards what nobody has read. So a
// conversion can tell all that it leaves out, without a list of what there might be.
package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Fold makes one name of the ways in which a field may be written.
type Fold func(name string) string

// AnyCase takes ServiceName, service_name and servicename for one.
func AnyCase(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// Exactly takes names as they are.
func Exactly(name string) string { return name }

// Object is an object on its way of being read. Each method reads a field by its name, and what is not of
// the wanted type counts as not read. A nil Object has no fields.
type Object struct {
	At report.Place

	fold     Fold
	values   map[string]any    // by folded names
	names    map[string]string // as they are written
	read     map[string]bool
	children []*Object
	made     map[string]any // what was read of fields that are objects, by folded names
}

// New returns an object, or nil if the value is none.
func New(value any, at report.Place, fold Fold) *Object {
	o := &Object{At: at, fold: fold, values: map[string]any{}, names: map[string]string{}, read: map[string]bool{}, made: map[string]any{}}
	all, is := mapOf(value)
	if !is {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o.values[fold(name)], o.names[fold(name)] = all[name], name
	}
	return o
}

// mapOf is a map by text. HCL has a list with one in its place.
func mapOf(value any) (map[string]any, bool) {
	switch v := value.(type) {
	case map[string]any:
		return v, true
	case map[any]any:
		out := map[string]any{}
		for key, value := range v {
			out[fmt.Sprint(key)] = value
		}
		return out, true
	case []map[string]any:
		if len(v) == 1 {
			return v[0], true
		}
	}
	return nil, false
}

func listOf(value any) ([]any, bool) {
	switch v := value.(type) {
	case []any:
		return v, true
	case []map[string]any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = v[i]
		}
		return out, true
	}
	return nil, false
}

// Has reports whether there is a field that says something. It does not read it.
func (o *Object) Has(name string) bool { return o != nil && !empty(o.values[o.fold(name)]) }

func empty(value any) bool {
	if value == nil || value == json.Number("0") {
		return true
	}
	v := reflect.ValueOf(value)
	if v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// Skip has fields count as read.
func (o *Object) Skip(names ...string) {
	for _, name := range names {
		if o != nil {
			o.read[o.fold(name)] = true
		}
	}
}

// Settle has all fields of the object, and of all within it, count as read: what becomes of them was told.
func (o *Object) Settle() {
	if o == nil {
		return
	}
	for name := range o.values {
		o.read[name] = true
	}
	for _, child := range o.children {
		child.Settle()
	}
}

// take is the value of a field, which is read if the function can make something of it.
func take[T any](o *Object, name string, of func(any) (T, bool)) (out T, there bool) {
	if o == nil {
		return out, false
	}
	value, there := o.values[o.fold(name)]
	if !there || value == nil {
		return out, false
	}
	if out, there = of(value); there {
		o.Skip(name)
	}
	return out, there
}

func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// Text reads a text, or what is written like one.
func (o *Object) Text(name string) string {
	out, _ := take(o, name, textOf)
	return out
}

// Number reads a number.
func (o *Object) Number(name string) (float64, bool) {
	return take(o, name, func(value any) (float64, bool) {
		text, is := textOf(value)
		out, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
		return out, is && err == nil && out >= 0 && out <= 1<<53
	})
}

// Whole reads a number, without what comes after the point.
func (o *Object) Whole(name string) (uint32, bool) {
	out, there := o.Number(name)
	return uint32(min(out, 1<<32-1)), there
}

// Bool reads yes or no.
func (o *Object) Bool(name string) (yes, there bool) {
	return take(o, name, func(value any) (bool, bool) {
		yes, is := value.(bool)
		return yes, is
	})
}

// Yes reports whether a field says yes.
func (o *Object) Yes(name string) bool {
	yes, _ := o.Bool(name)
	return yes
}

// Duration reads a duration: 5s, or a number of nanoseconds.
func (o *Object) Duration(name string) (time.Duration, bool) {
	return take(o, name, func(value any) (time.Duration, bool) {
		text, is := textOf(value)
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return time.Duration(n), is && n >= 0
		}
		out, err := time.ParseDuration(text)
		return out, is && err == nil && out >= 0
	})
}

// Texts reads a list of texts.
func (o *Object) Texts(name string) []string {
	out, _ := take(o, name, func(value any) ([]string, bool) {
		all, is := listOf(value)
		var out []string
		for _, each := range all {
			text, isText := textOf(each)
			if !isText {
				return nil, false
			}
			out = append(out, text)
		}
		return out, is
	})
	return out
}

// Map reads a map of texts.
func (o *Object) Map(name string) map[string]string {
	out, _ := take(o, name, func(value any) (map[string]string, bool) {
		all, is := mapOf(value)
		out := map[string]string{}
		for key, each := range all {
			text, isText := textOf(each)
			if !isText {
				return nil, false
			}
			out[key] = text
		}
		return out, is
	})
	return out
}

// once makes something of a field the first time, and returns the same later.
func once[T any](o *Object, name string, of func(any) (T, bool)) (out T) {
	if o == nil {
		return out
	}
	if made, is := o.made[o.fold(name)].(T); is {
		return made
	}
	out, there := take(o, name, of)
	if there {
		o.made[o.fold(name)] = out
	}
	return out
}

// Object reads an object; nil if there is none.
func (o *Object) Object(name string) *Object {
	return once(o, name, func(value any) (*Object, bool) {
		child := o.child(New(value, o.place(name), o.fold))
		return child, child != nil
	})
}

func (o *Object) place(name string) report.Place { return o.At.In("%s", o.names[o.fold(name)]) }

func (o *Object) child(child *Object) *Object {
	if child != nil {
		o.children = append(o.children, child)
	}
	return child
}

// Objects reads a list of objects.
func (o *Object) Objects(name string) []*Object {
	return once(o, name, func(value any) ([]*Object, bool) {
		all, is := listOf(value)
		out := make([]*Object, 0, len(all))
		for i, each := range all {
			child := New(each, o.place(name).In("[%d]", i), o.fold)
			if child == nil {
				return nil, false
			}
			out = append(out, child)
		}
		o.children = append(o.children, out...)
		return out, is
	})
}

// Named reads an object whose fields are names that somebody has given, with an object each.
func (o *Object) Named(name string) map[string]*Object {
	return once(o, name, func(value any) (map[string]*Object, bool) {
		all, is := mapOf(value)
		out := map[string]*Object{}
		for _, key := range slices.Sorted(maps.Keys(all)) {
			child := New(all[key], o.place(name).In("%s", key), o.fold)
			if child == nil {
				return nil, false
			}
			out[key] = o.child(child)
		}
		return out, is
	})
}

// Left are the places of fields of the object itself that say something, and that nobody has read.
func (o *Object) Left() (out []report.Place) {
	if o == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(o.values)) {
		if !o.read[name] && !empty(o.values[name]) {
			out = append(out, o.place(name))
		}
	}
	return out
}

// Unread are those of the object, and of all within it.
func (o *Object) Unread() []report.Place {
	if o == nil {
		return nil
	}
	out := o.Left()
	for _, child := range o.children {
		out = append(out, child.Unread()...)
	}
	return out
}
