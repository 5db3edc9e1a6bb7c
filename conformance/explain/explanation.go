// Package explain records why discovery's answers to some exam cases differ from istiod's. An
// explanation is narrow: it says in which cases and resources it applies, and which change there
// makes both answers the same. A difference that remains is unexplained.
package explain

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/conformance/recording"
)

//go:embed explanations.yaml
var ours []byte

// side is whose answer a change concerns.
type side string

const (
	recorded side = "recorded" // istiod's
	served   side = "served"   // discovery's
	both     side = "both"
)

// Explanation is why some answers differ.
type Explanation struct {
	Why  string
	When condition
	// Fails matches what a case says that is not met, or that discovery refuses.
	Fails pattern
	// In lists the kinds of resources, all if it is empty. Resource matches their names.
	In       []string
	Resource pattern
	// Only is the side that has the whole resource alone.
	Only side
	// Changes make the same what the two sides have each in their own way.
	Changes []change

	used int
}

// condition tells in which cases an explanation applies. What it leaves out is not asked.
type condition struct {
	Cases   pattern // their ids
	Env     string  // NAME=value, or !NAME=value
	Kind    string  // a kind of resource in the configuration
	Without string  // what the proxy's metadata lacks
}

func (w condition) holds(c *Case) bool {
	return w.Cases.matches(c.ID) && w.envHolds(c) && (w.Kind == "" || c.kinds[w.Kind]) && (w.Without == "" || c.Proxy.Metadata[w.Without] == nil)
}

func (w condition) envHolds(c *Case) bool {
	if w.Env == "" {
		return true
	}
	switched, not := strings.CutPrefix(w.Env, "!")
	name, value, _ := strings.Cut(switched, "=")
	return (c.Env[name] == value) != not
}

func (e *Explanation) concerns(r recording.Resource) bool {
	return (len(e.In) == 0 || slices.Contains(e.In, r.Kind)) && e.Resource.matches(r.Name)
}

// pattern is a regular expression that matches a part of a text; the empty one matches all.
type pattern struct{ *regexp.Regexp }

// UnmarshalText makes a pattern of how it is written.
func (p *pattern) UnmarshalText(text []byte) (err error) {
	p.Regexp, err = regexp.Compile(string(text))
	return err
}

func (p pattern) matches(text string) bool { return p.Regexp == nil || p.MatchString(text) }

// Explanations are all that there are, and which of them were needed.
type Explanations []*Explanation

// Load reads the explanations of this project.
func Load() (Explanations, error) { return parse(ours) }

func parse(text []byte) (Explanations, error) {
	var all Explanations
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(&all); err != nil {
		return nil, fmt.Errorf("read the explanations: %w", err)
	}
	for i, e := range all {
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("explanation %d (%s): %w", i+1, e.Why, err)
		}
	}
	return all, nil
}

func (e *Explanation) check() error {
	if e.Why == "" {
		return errors.New("it says no reason: give it a why")
	}
	if e.Fails.Regexp == nil && e.Only == "" && len(e.Changes) == 0 {
		return errors.New("it explains nothing: give it fails, only, or changes")
	}
	if e.Only != "" && e.Only != recorded && e.Only != served {
		return fmt.Errorf("only is %q: want recorded or served", e.Only)
	}
	if env := e.When.Env; env != "" && !strings.Contains(env, "=") {
		return fmt.Errorf("env is %q: want NAME=value or !NAME=value", env)
	}
	for _, c := range e.Changes {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}
