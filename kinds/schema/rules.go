package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema/predicate"
)

// Rule is something that must not hold of an object of a type.
type Rule struct {
	Each   string  `yaml:"each"`   // check each item of this list, or of these nested lists
	When   string  `yaml:"when"`   // a jsonpath predicate: the rule applies only to objects for which it holds
	Wrong  string  `yaml:"wrong"`  // a jsonpath predicate that holds if the rule is broken
	Unique *string `yaml:"unique"` // the member that must be unique among the items, or "" for the items themselves
	Check  string  `yaml:"check"`  // the name of a check that no jsonpath can express
	At     string  `yaml:"at"`     // the path to report, relative to the object or the item
	Reason string  `yaml:"reason"`
	Hint   string  `yaml:"hint"`

	Steps       []Step               `yaml:"-"` // Each, resolved
	when, wrong *predicate.Predicate // When and Wrong, compiled
}

// Step is one field on the path to the items that a rule applies to.
type Step struct {
	Field string `json:"field"`
	Shape string `json:"shape"` // "single", "list" or "map"
}

// Format is a syntax of strings.
type Format struct {
	Name     string `yaml:"-"`
	Pattern  string `yaml:"pattern"`
	Unlike   string `yaml:"unlike"`   // a pattern that must not match
	Long     string `yaml:"long"`     // a pattern that must not match either; asked only of strings of 64 characters or more
	Max      *int   `yaml:"max"`      // characters
	Function string `yaml:"function"` // the name of a test that no pattern can express
	Or       string `yaml:"or"`       // another format that also qualifies
	Reason   string `yaml:"reason"`
	Hint     string `yaml:"hint"`

	or *Format
}

// ruleFile is the content of one rule file.
type ruleFile struct {
	Formats map[string]*Format    `yaml:"formats"`
	Types   map[string]*typeRules `yaml:"types"`
}

type typeRules struct {
	Fields  map[string]fieldConstraints `yaml:"fields"`
	Formats map[string]string           `yaml:"formats"`
	Rules   []*Rule                     `yaml:"rules"`
}

// fieldConstraints are the constraints of a field that its descriptor does not have.
type fieldConstraints struct {
	Required    *bool    `yaml:"required"`
	Min         *float64 `yaml:"min"`
	Max         *float64 `yaml:"max"`
	MinItems    *int     `yaml:"minItems"`
	MaxItems    *int     `yaml:"maxItems"`
	MinLength   *int     `yaml:"minLength"`
	MaxLength   *int     `yaml:"maxLength"`
	Pattern     *string  `yaml:"pattern"`
	MinDuration string   `yaml:"minDuration"`
	MaxDuration string   `yaml:"maxDuration"`
	Precision   string   `yaml:"precision"`
	Format      string   `yaml:"format"`
	Keys        string   `yaml:"keys"`
}

// addRules reads the rule files and adds their content to the table.
func (t *Table) addRules() error {
	t.Formats = map[string]*Format{}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(files())), func(name string) bool { return name == unsupportedFile })
	read := make([]*ruleFile, len(names))
	for i, name := range names {
		var err error
		if read[i], err = readRuleFile(files()[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(t.Formats, read[i].Formats)
	}
	if err := t.checkFormats(); err != nil {
		return err
	}
	for i, file := range read {
		for _, name := range slices.Sorted(maps.Keys(file.Types)) {
			if err := t.addDocument(name, file.Types[name]); err != nil {
				return fmt.Errorf("%s: %s: %w", names[i], name, err)
			}
		}
	}
	return nil
}

// checkFormats names the formats and resolves their functions and alternatives.
func (t *Table) checkFormats() error {
	for name, f := range t.Formats {
		f.Name = name
		if f.Function != "" && formatFunctions[f.Function] == nil {
			return fmt.Errorf("%s: no function %q is known", name, f.Function)
		}
		if f.Or != "" {
			f.or = t.Formats[f.Or]
		}
		if f.Or != "" && f.or == nil {
			return fmt.Errorf("%s: no format %q is known", name, f.Or)
		}
	}
	return nil
}

func readRuleFile(text string) (*ruleFile, error) {
	file := &ruleFile{}
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	return file, decoder.Decode(file)
}

func (t *Table) addDocument(name string, d *typeRules) error {
	of := t.Types[name]
	if of == nil {
		return errors.New("no kind has this type")
	}
	for field, constraints := range d.Fields {
		if err := t.constrain(of, field, constraints); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	for field, format := range d.Formats {
		constraints := fieldConstraints{Format: format}
		if plain, ok := strings.CutSuffix(field, ".keys"); ok {
			field, constraints = plain, fieldConstraints{Keys: format}
		}
		if err := t.constrain(of, field, constraints); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	for _, r := range d.Rules {
		if err := t.resolve(of, r); err != nil {
			return fmt.Errorf("rule %q: %w", r.Wrong+r.Check+r.Each, err)
		}
	}
	of.Rules = append(of.Rules, d.Rules...)
	return nil
}

func (t *Table) constrain(of *Type, name string, d fieldConstraints) error {
	f := of.Field(name)
	if f == nil {
		return errors.New("the type has no such field")
	}
	override(&f.Required, d.Required)
	overridePointer(&f.Min, d.Min)
	overridePointer(&f.Max, d.Max)
	overridePointer(&f.MinItems, d.MinItems)
	overridePointer(&f.MaxItems, d.MaxItems)
	overridePointer(&f.MinLength, d.MinLength)
	overridePointer(&f.MaxLength, d.MaxLength)
	override(&f.Pattern, d.Pattern)
	for _, bound := range []struct {
		text string
		to   *string
	}{{d.MinDuration, &f.MinDuration}, {d.MaxDuration, &f.MaxDuration}, {d.Precision, &f.Precision}} {
		if bound.text == "" {
			continue
		}
		if _, ok := parseDuration(bound.text); !ok || f.Type != Duration {
			return fmt.Errorf("%q is not a bound of a duration", bound.text)
		}
		*bound.to = bound.text
	}
	if d.Format != "" && f.Type != String || d.Keys != "" && !f.Map {
		return fmt.Errorf("a %s cannot have this format", f.Type)
	}
	return t.setFormats(f, d)
}

func (t *Table) setFormats(f *Field, d fieldConstraints) error {
	for name, to := range map[string]**Format{d.Format: &f.Format, d.Keys: &f.KeyFormat} {
		if name == "" {
			continue
		}
		format := t.Formats[name]
		if format == nil {
			return fmt.Errorf("no format %q is known", name)
		}
		*to = format
	}
	return nil
}

func override[V any](to, from *V) {
	if from != nil {
		*to = *from
	}
}

func overridePointer[V any](to **V, from *V) {
	if from != nil {
		*to = from
	}
}

// resolve checks a rule, and compiles its predicates and its path.
func (t *Table) resolve(of *Type, r *Rule) error {
	forms := 0
	for _, set := range []bool{r.Wrong != "", r.Unique != nil, r.Check != ""} {
		if set {
			forms++
		}
	}
	if forms != 1 || r.Unique != nil && r.Each == "" || r.Check != "" && r.Each != "" {
		return errors.New("a rule has wrong, or each and unique, or check")
	}
	if r.Check == "" && r.Reason == "" {
		return errors.New("a rule has a reason")
	}
	if r.Check != "" && checks[r.Check] == nil {
		return fmt.Errorf("no check %q is known", r.Check)
	}
	if err := r.compile(); err != nil {
		return err
	}
	return t.resolveSteps(of, r)
}

// compile compiles the predicates of the rule.
func (r *Rule) compile() (err error) {
	if r.When != "" {
		if r.when, err = predicate.Parse(r.When, "meta"); err != nil {
			return err
		}
	}
	if r.Wrong != "" {
		r.wrong, err = predicate.Parse(r.Wrong, itemVariables...)
	}
	return err
}

func (t *Table) resolveSteps(of *Type, r *Rule) error {
	if r.Each == "" {
		return nil
	}
	for name := range strings.SplitSeq(r.Each, ".") {
		if of == nil {
			return fmt.Errorf("%s is not in a message", name)
		}
		f := of.Field(name)
		if f == nil {
			return fmt.Errorf("%s has no field %s", of.Name, name)
		}
		r.Steps = append(r.Steps, Step{name, f.Shape()})
		of = t.Types[f.TypeRef]
	}
	return nil
}

// Field returns the field of a name, nil if there is none.
func (t *Type) Field(name string) *Field {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// Shape returns how many values a field has: "single", "list" or "map".
func (f *Field) Shape() string {
	switch {
	case f.Repeated:
		return "list"
	case f.Map:
		return "map"
	}
	return "single"
}
