package relay

import (
	"crypto/sha256"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// plugins are the Wasm plugins of one stream whose modules this machine fetches.
//
// Envoy is sent such a plugin when its module is there, with the module's file. The rest of a
// response goes on at once. Discovery is told the truth: until Envoy has a plugin, it is refused,
// with the reason. When that changes, the agent asks discovery for the plugin anew, so that it
// comes once more and can be sent, and answered, as any other resource. Discovery's answer waits
// only for a moment, within which most modules come.
//
// What Envoy has in the meantime: the plugin as it was, if it has it; else the last good one, if
// there is one; else, after a while or a failure, a stand-in that does as the plugin's strategy for
// failures says. A nil plugins does nothing.
type plugins struct {
	stream *stream
	of     *wasm.Modules
	wake   chan struct{} // has an element when something has changed

	mu       sync.Mutex
	followed map[string]*followed // by the names of resources
	held     []*heldAnswer        // the oldest first
	has      map[string]string    // what Envoy has accepted and is no stand-in: versions, by name
	sent     map[string]versions  // what is in responses that Envoy has not answered, by nonce
	names    []string             // that Envoy asks for (SotW)
	nonce    string               // of the response that discovery was answered last (SotW)
	version  string               // that Envoy has accepted last (SotW)
}

// versions are those that discovery has of resources, by name.
type versions map[string]string

// followed is a plugin whose module is elsewhere.
type followed struct {
	resource wire.Resource
	version  string
	plugin   *plugin.Plugin
	watch    *wasm.Watch
	since    time.Time
	// told is what discovery was told of why Envoy does not have it; nil for nothing.
	told *refusal
	// refused says that discovery was told, or will be, and may take the plugin back.
	refused bool
}

// refusal is what discovery is told of a plugin.
type refusal struct {
	reason string
	// served says that Envoy has something in the plugin's place.
	served bool
	at     time.Time
}

// outcome is what can be done with a plugin.
type outcome struct {
	path    string // of the module's file; "" if there is none
	reason  string // why there is none
	decided bool   // it need not be waited for, or not any more
	late    bool   // something has to stand in for it
}

// answerWithin is how long discovery's answer waits for modules.
const answerWithin = time.Second

func newPlugins(st *stream, of *wasm.Modules) *plugins {
	if of == nil {
		return nil
	}
	return &plugins{
		stream: st, of: of, wake: make(chan struct{}, 1), followed: map[string]*followed{}, has: map[string]string{}, sent: map[string]versions{},
	}
}

// news receives when something has changed that advance is to act on.
func (p *plugins) news() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.wake
}

func (p *plugins) changed() {
	select {
	case p.wake <- struct{}{}:
	default: // whoever is woken looks at everything
	}
}

// close ends the wait for all modules.
func (p *plugins) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.followed {
		p.forget(name)
	}
}

// forget ends the wait for a plugin's module. The caller holds p.mu, as for all below.
func (p *plugins) forget(name string) {
	if f := p.followed[name]; f != nil {
		f.watch.Stop()
		delete(p.followed, name)
	}
}

// follow returns a plugin that came from discovery, nil for another resource.
func (p *plugins) follow(one wire.Resource) *followed {
	read, err := plugin.Read(one.Body)
	if err != nil {
		p.stream.server.Log.Error("cannot read an extension of discovery; it is passed on to Envoy", "name", one.Name, "error", err)
	}
	before := p.followed[one.Name]
	if read == nil {
		p.forget(one.Name)
		return nil
	}
	f := &followed{resource: one, version: versionOf(one), plugin: read, since: time.Now()}
	f.resource.Body = nil // it has what only the agent is to know
	if before != nil && before.plugin.SameModule(read) {
		f.since = before.since // it came again
	}
	f.watch = p.of.Watch(read, p.changed)
	p.forget(one.Name) // after the new one waits, so that nothing ends between
	p.followed[one.Name] = f
	if outcome := p.outcomeOf(f); outcome.path == "" {
		time.AfterFunc(time.Until(f.since.Add(answerWithin)), p.changed)
		time.AfterFunc(time.Until(f.since.Add(p.of.Wait())), p.changed)
	}
	return f
}

func (p *plugins) outcomeOf(f *followed) outcome {
	path, reason := f.watch.State()
	if path != "" {
		return outcome{path: path, decided: true}
	}
	waited := time.Since(f.since)
	out := outcome{reason: reason, decided: reason != "" || waited >= answerWithin, late: reason != "" || waited >= p.of.Wait()}
	if reason == "" {
		out.reason = "its module is being fetched"
	}
	return out
}

// instead returns what Envoy is sent in place of a plugin that it cannot have, if anything, and
// whether it has something then.
func (p *plugins) instead(f *followed, late bool) (out []wire.Resource, served bool) {
	name := f.resource.Name
	if _, has := p.has[name]; has {
		return nil, true
	}
	if good, some := p.lastGood(name); some {
		return []wire.Resource{good}, true
	}
	if !late {
		return nil, false
	}
	body, version, err := f.plugin.StandIn()
	if err != nil {
		p.stream.server.Log.Error("nothing can stand in for a Wasm plugin", "name", name, "error", err)
		return nil, false
	}
	return []wire.Resource{{Name: name, Version: version, Body: body}}, true
}

// lastGood returns a plugin as it was accepted last, unless that was a stand-in.
func (p *plugins) lastGood(name string) (out wire.Resource, some bool) {
	kept := p.stream.server.Kept
	if kept == nil {
		return out, false
	}
	found, _ := kept.Some(plugin.Type, func(other string) bool { return other == name })
	for _, one := range found {
		if path := plugin.File(one.Body); path != "" && isThere(path) {
			return one, true
		}
	}
	return out, false
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// rewritten returns a plugin with its module in a file.
func (f *followed) rewritten(path string) (wire.Resource, error) {
	out := f.resource
	var err error
	out.Body, err = f.plugin.WithFile(path)
	return out, err
}

// versionOf returns the version of a resource. In the SotW form that is what is in it.
func versionOf(one wire.Resource) string {
	if one.Version != "" {
		return one.Version
	}
	sum := sha256.Sum256(one.Body)
	return string(sum[:])
}

// takenBack reports whether discovery only says what Envoy is to have after it has refused a
// plugin. Envoy has that, for it was not sent what the agent has refused.
func (p *plugins) takenBack(one wire.Resource) bool {
	f := p.followed[one.Name]
	return f != nil && f.refused && p.has[one.Name] == versionOf(one)
}

// removed returns what Envoy is to remove. A plugin that the agent has refused stays: if it is
// gone, Envoy asks for it no more.
func (p *plugins) removed(names []string) (out []string) {
	for _, name := range names {
		if f := p.followed[name]; f != nil && f.refused {
			continue
		}
		p.forget(name)
		delete(p.has, name)
		out = append(out, name)
	}
	return out
}

// accepted notes what Envoy has accepted of a response.
func (p *plugins) accepted(nonce string, ok bool) {
	if ok {
		maps.Copy(p.has, p.sent[nonce])
	}
	delete(p.sent, nonce)
}

// mostUnanswered bounds the responses that Envoy may leave without an answer.
const mostUnanswered = 64

// sends notes what Envoy is sent, with the versions that discovery has of it.
func (p *plugins) sends(nonce string, all versions) {
	if len(p.sent) >= mostUnanswered {
		clear(p.sent)
	}
	p.sent[nonce] = all
}
