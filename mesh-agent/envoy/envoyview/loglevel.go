package envoyview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
)

// LogLevels are Envoy's log levels.
var LogLevels = []string{"trace", "debug", "info", "warning", "error", "critical", "off"}

// Components maps Envoy's loggers to their levels.
type Components map[string]string

// Names returns the sorted names.
func (c Components) Names() []string { return slices.Sorted(maps.Keys(c)) }

// ReadComponents asks Envoy.
func ReadComponents(ctx context.Context, envoy *envoyadmin.Admin) (Components, error) {
	text, err := envoy.Post(ctx, "/logging")
	if err != nil {
		return nil, err
	}
	all := Components{}
	for line := range strings.Lines(text) {
		if name, level, isOne := strings.Cut(strings.TrimSpace(line), ": "); isOne {
			all[name] = level
		}
	}
	return all, nil
}

// Change sets the level of a logger, or of all if Component is empty.
type Change struct{ Component, Level string }

// ParseChanges parses LEVEL or COMPONENT=LEVEL, several of them separated by commas too.
func (c Components) ParseChanges(args []string) (changes []Change, err error) {
	for _, arg := range args {
		for each := range strings.SplitSeq(arg, ",") {
			name, level, named := strings.Cut(strings.ReplaceAll(each, ":", "="), "=")
			if !named {
				name, level = "", each
			}
			if level == "warn" {
				level = "warning"
			}
			_, isOne := c[name]
			switch {
			case named && !isOne:
				err = errors.Join(err, fmt.Errorf("Envoy has no component %q: %s", name, nearest.Hint(name, c.Names(), "it has ")))
			case !slices.Contains(LogLevels, level):
				err = errors.Join(err, fmt.Errorf("%q is no log level: %s", level, nearest.Hint(level, LogLevels, "choose one of ")))
			}
			changes = append(changes, Change{name, level})
		}
	}
	// Changes of all loggers come first, as they would undo the others.
	slices.SortStableFunc(changes, func(a, b Change) int { return cmp.Compare(min(len(a.Component), 1), min(len(b.Component), 1)) })
	return changes, err
}

// Apply makes the changes in order.
func Apply(ctx context.Context, envoy *envoyadmin.Admin, changes []Change) error {
	for _, c := range changes {
		path := "/logging?level=" + c.Level
		if c.Component != "" {
			path = "/logging?paths=" + url.QueryEscape(c.Component+":"+c.Level)
		}
		if _, err := envoy.Post(ctx, path); err != nil {
			return err
		}
	}
	return nil
}
