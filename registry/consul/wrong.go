package consul

import (
	"errors"
	"fmt"
)

// wrong is what is wrong with services, by their names and by the datacenters that cannot be read.
// No datacenter (nil) stands for all together: no resource can be made of what was read.
type wrong map[string]map[*part]error

func (w wrong) has(name string, at *part) bool { return w[name][at] != nil }

// set records an error, nil for none, and reports whether there was or is one.
func (w wrong) set(name string, at *part, err error) (concerns bool) {
	if err == nil {
		concerns = w.has(name, at)
		if delete(w[name], at); len(w[name]) == 0 {
			delete(w, name)
		}
		return concerns
	}
	if w[name] == nil {
		w[name] = map[*part]error{}
	}
	w[name][at] = err
	return true
}

// sayBad tells all that is wrong with a service, or that nothing is any more.
func (m *mesh) sayBad(name string, at *part, err error) {
	if !m.wrong.set(name, at, err) {
		return
	}
	all := []error{m.wrong[name][nil]}
	for _, p := range m.parts {
		if err := m.wrong[name][p]; err != nil {
			all = append(all, p.saying(err))
		}
	}
	m.sink.Bad(entryOf(name), errors.Join(all...))
}

// saying has an error name the datacenter, if there are several.
func (p *part) saying(err error) error {
	if p.datacenter == "" {
		return err
	}
	return fmt.Errorf("datacenter %s: %w", p.datacenter, err)
}
