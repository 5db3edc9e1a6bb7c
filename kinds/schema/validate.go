package schema

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Meta is the metadata that rules can refer to.
type Meta struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// variable returns the metadata as the variable $meta.
func (m *Meta) variable() map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return map[string]any{
		"name": m.Name, "namespace": m.Namespace, "labels": object(m.Labels), "annotations": object(m.Annotations),
	}
}

func object(m map[string]string) map[string]any {
	members := make(map[string]any, len(m))
	for key, value := range m {
		members[key] = value
	}
	return members
}

// Validate does what Check does and, if that finds nothing wrong, evaluates the rules of the types.
// Meta is nil if unknown.
func Validate(root *Type, path string, tree any, meta *Meta) (normal any, problems []Problem) {
	normal, problems = Check(root, path, tree)
	if len(problems) > 0 {
		return normal, problems
	}
	j := &ruleWalk{}
	j.object(root, path, normal, meta.variable())
	return normal, j.problems
}

// ruleWalk is the walk of the rules.
type ruleWalk struct{ walk }

// emptyMeta is $meta for types below the root, whose objects may be in resources of several kinds.
var emptyMeta = map[string]any{}

func (j *ruleWalk) object(t *Type, path string, v any, meta map[string]any) {
	members, _ := v.(map[string]any)
	s := &subject{path: path, object: members, meta: meta}
	for _, r := range t.Rules {
		if r.when == nil || r.when.Holds(members, meta) {
			j.rule(r, s)
		}
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if value, ok := members[f.Name]; ok && f.Type == Message {
			j.field(f, Member(path, f.Name), value)
		}
	}
}

func (j *ruleWalk) field(f *Field, path string, v any) {
	t := Types()[f.TypeRef]
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			j.object(t, Item(path, i), item, emptyMeta)
		}
	case map[string]any:
		if !f.Map {
			j.object(t, path, v, emptyMeta)
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			j.object(t, Member(path, key), v[key], emptyMeta)
		}
	}
}

// subject is what the rules of a type are asked of.
type subject struct {
	path         string
	object, meta map[string]any
	items        map[string][]place // by the Each of rules: several look at the same items
}

// places are the items that a rule is about.
func (s *subject) places(r *Rule) []place {
	all, known := s.items[r.Each]
	if !known {
		if s.items == nil {
			s.items = map[string][]place{}
		}
		all = places(r.Steps, s.path, s.object)
		s.items[r.Each] = all
	}
	return all
}

func (j *ruleWalk) rule(r *Rule, s *subject) {
	switch {
	case r.Check != "":
		for _, p := range checks[r.Check](s.object, s.meta) {
			j.report(join(s.path, p.Path), p.Reason, p.Hint)
		}
	case r.Each == "":
		j.item(r, s, &place{path: s.path})
	case r.Unique != nil:
		j.duplicates(r, s)
	default:
		all := s.places(r)
		for i := range all {
			j.item(r, s, &all[i])
		}
	}
}

// itemVariables are the variables of a predicate on an item, in the order in which it is given them.
var itemVariables = []string{"meta", "i", "key", "item", "parent"}

func (j *ruleWalk) item(r *Rule, s *subject, p *place) {
	if r.wrong.Holds(s.object, s.meta, int64(p.i), p.key, p.item, p.parent) {
		j.reportRule(r, s, p)
	}
}

func (j *ruleWalk) reportRule(r *Rule, s *subject, p *place) {
	variables := p.variables(s.meta)
	j.report(join(p.path, fill(r.At, s.object, variables)), fill(r.Reason, s.object, variables), fill(r.Hint, s.object, variables))
}

// duplicates reports the items that equal an earlier one in their list.
func (j *ruleWalk) duplicates(r *Rule, s *subject) {
	seen := map[string]bool{}
	all := s.places(r)
	for i := range all {
		p := &all[i]
		if p.i == 0 {
			clear(seen)
		}
		value := p.item
		if *r.Unique != "" {
			members, _ := value.(map[string]any)
			value = members[*r.Unique]
		}
		text, ok := scalarText(value)
		if !ok {
			continue
		}
		if seen[text] {
			j.reportRule(r, s, p)
		}
		seen[text] = true
	}
}

// place is an item that a rule applies to.
type place struct {
	path   string
	item   any
	parent map[string]any // the message that holds the list or map
	key    string
	i      int
}

// variables are those that a text may name.
func (p *place) variables(meta map[string]any) map[string]any {
	return map[string]any{"meta": meta, "i": json.Number(strconv.Itoa(p.i)), "key": p.key, "item": p.item, "parent": p.parent}
}

// places returns the items that the steps lead to, in the order of the walk.
func places(steps []Step, path string, object map[string]any) []place {
	found := []place{{path: path, item: object}}
	for _, step := range steps {
		var next []place
		for _, from := range found {
			next = append(next, from.step(step)...)
		}
		found = next
	}
	return found
}

func (p *place) step(s Step) []place {
	members, _ := p.item.(map[string]any)
	value, ok := members[s.Field]
	if !ok {
		return nil
	}
	at := Member(p.path, s.Field)
	switch s.Shape {
	case "list":
		return p.items(at, members, value)
	case "map":
		return p.members(at, members, value)
	}
	return []place{{path: at, item: value, parent: members, key: p.key, i: p.i}}
}

func (p *place) items(path string, parent map[string]any, value any) (found []place) {
	items, _ := value.([]any)
	for i, item := range items {
		found = append(found, place{path: Item(path, i), item: item, parent: parent, key: p.key, i: i})
	}
	return found
}

func (p *place) members(path string, parent map[string]any, value any) (found []place) {
	members, _ := value.(map[string]any)
	for i, key := range slices.Sorted(maps.Keys(members)) {
		found = append(found, place{path: Member(path, key), item: members[key], parent: parent, key: key, i: i})
	}
	return found
}

// join appends a relative path to a path. A relative path that begins with a slash starts at the
// resource instead.
func join(path, below string) string {
	switch {
	case strings.HasPrefix(below, "/"):
		return below[1:]
	case below == "" || strings.HasPrefix(below, "["):
		return path + below
	case path == "":
		return below
	}
	return path + "." + below
}

var template = regexp.MustCompile(`\{[A-Za-z][A-Za-z0-9]*(\.[A-Za-z0-9]+)*\}`)

// fill replaces placeholders in a text: {x} is a member of the object, {item.x} one of a variable.
func fill(text string, object map[string]any, variables map[string]any) string {
	return template.ReplaceAllStringFunc(text, func(match string) string {
		names := strings.Split(strings.Trim(match, "{}"), ".")
		var value any = object
		if variable, ok := variables[names[0]]; ok {
			value, names = variable, names[1:]
		}
		for _, name := range names {
			members, _ := value.(map[string]any)
			value = members[name]
		}
		filled, _ := scalarText(value)
		return filled
	})
}

// scalarText formats a string, number or boolean.
func scalarText(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case json.Number:
		return v.String(), true
	}
	return "", false
}
