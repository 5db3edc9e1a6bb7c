package registries

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/registry"
)

// What a registry may make a server keep.
const (
	mostResources = 500_000
	mostReason    = 500 // bytes of what is wrong with an entry
)

// origin is a registry with what is served of it. It is the registry's sink.
type origin struct {
	registry  registry.Registry
	rank      string
	publisher *publish.Publisher
	log       *slog.Logger
	trail     *Trail // nil if nobody keeps a copy

	mu      sync.Mutex
	read    bool
	settled bool // nobody waits for it
	lent    bool // its secrets were given, or saved
	away    error
	stale   time.Time
	has     map[kinds.Key]item
	told    map[string]string             // what the registry says is wrong, by entry
	wrong   map[kinds.Key]string          // what is wrong with resources that it gave
	unfit   map[kinds.Key]string          // what is wrong with secrets that it gave
	refused map[kinds.Key]*kinds.Resource // those resources
	changes int64
	servers []string // that the registry is read from, if it is another server
	meshes  []string // that what it has is of
}

// item is what is served of a resource, or may be shown of a secret.
type item struct {
	from   *kinds.Resource // as the registry gave it; nil for what was saved
	served *served.Resource
	entry  string
}

func newOrigin(r registry.Registry, rank int, p *publish.Publisher, log *slog.Logger) *origin {
	return &origin{registry: r, rank: strconv.Itoa(rank), publisher: p, log: log, has: map[kinds.Key]item{}, told: map[string]string{}, wrong: map[kinds.Key]string{}, unfit: map[kinds.Key]string{}, refused: map[kinds.Key]*kinds.Resource{}}
}

// run begins with what was saved.
func (o *origin) run(ctx context.Context) error {
	o.recall()
	err := o.registry.Run(ctx, o)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o.log.Error("the registry is not read any more: its settings can never work. Correct --registry and start the server again", "error", err)
	o.Away(cmp.Or(err, errEnded))
	<-ctx.Done()
	return ctx.Err()
}

func (o *origin) recall() {
	o.mu.Lock()
	defer o.mu.Unlock()
	saved, stale := o.publisher.Joined(o.registry.Name())
	o.stale = stale
	for kind, content := range saved {
		for _, r := range content {
			o.recallOne(keyOf(kind, r.Name), r)
		}
	}
}

func (o *origin) recallOne(key kinds.Key, r *served.Resource) {
	entry := entryOf(r)
	if key.Kind == kinds.Secret {
		shown, err := public(key, r)
		if err != nil { // it is given again
			return
		}
		o.lent, r = true, shown
	}
	o.has[key] = item{served: r, entry: entry}
}

// notAwaited has the server serve without a registry that has given nothing in time.
func (o *origin) notAwaited(waited time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.settled {
		return
	}
	o.settled = true
	o.log.Warn("the registry has given nothing in time: serving without what it has now", "after", waited, "resources", len(o.has), "error", o.away)
	o.publisher.Settle(o.registry.Name())
}

// Replace serves everything that the registry has. Resources of entries that are told to be bad
// stay.
func (o *origin) Replace(all []*kinds.Resource) {
	o.mu.Lock()
	defer o.mu.Unlock()
	there := make(map[kinds.Key]bool, len(all))
	changes := make([]kinds.Change, 0, len(all))
	for _, r := range all {
		there[r.Key()] = true
		changes = append(changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	for key, had := range o.has {
		if key.Kind != kinds.Secret && !there[key] && !o.blamed(had.entry) {
			changes = append(changes, kinds.Change{Key: key})
		}
	}
	maps.DeleteFunc(o.wrong, func(key kinds.Key, _ string) bool { return !there[key] })
	maps.DeleteFunc(o.refused, func(key kinds.Key, _ *kinds.Resource) bool { return !there[key] })
	o.trail.stir()
	o.apply(changes)
	if !o.read {
		o.log.Info("read the registry", "resources", len(o.has))
	}
	o.read, o.settled = true, true
	o.back()
	o.stand()
	o.publisher.Settle(o.registry.Name())
}

// Holds reports whether anything of the registry is served.
func (o *origin) Holds() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.has) > 0
}

// stand tells clients how the registry stands. Those that are told that it was read have what it has.
func (o *origin) stand() {
	o.publisher.StandJoined(publish.RegistryStanding{Name: o.registry.Name(), Stale: o.stale, Read: o.read, Servers: o.servers, Meshes: o.meshes})
}

// blamed reports whether an entry is told to be bad, or all that begin as it does.
func (o *origin) blamed(entry string) bool {
	if _, itself := o.told[entry]; itself {
		return true
	}
	beginning, _, longer := strings.Cut(entry, "/")
	_, all := o.told[beginning]
	return longer && all
}

// Apply serves changes.
func (o *origin) Apply(changes []kinds.Change) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apply(changes)
}

// Bad records what is wrong with an entry.
func (o *origin) Bad(name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	note(o, o.told, name, name, err)
}

// note records what is wrong with an entry or a resource, and logs it once. Nil says that nothing
// is.
func note[K comparable](o *origin, in map[K]string, key K, name string, err error) {
	before, known := in[key]
	if err == nil {
		if delete(in, key); known {
			o.trail.stir()
		}
		return
	}
	reason := terse.Kept(err.Error(), mostReason)
	if before == reason || !known && len(in) >= mostResources {
		return
	}
	in[key] = reason
	o.trail.stir()
	o.log.Error("an entry of a registry cannot be used; its last good state stays. Correct it in the registry", "entry", name, "error", reason)
}

// Away records that the registry cannot be asked; nil says that it can.
func (o *origin) Away(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.back()
		return
	}
	if o.stale.IsZero() {
		o.stale = time.Now()
	}
	if o.away == nil || o.away.Error() != err.Error() {
		o.trail.stir()
		o.log.Warn("the registry cannot be asked; what it had stays, and the server goes on trying", "resources", len(o.has), "since", o.stale, "error", err)
	}
	o.away = err
	o.stand()
	if !o.settled && len(o.has) > 0 && !o.awaitsSecrets() { // what was saved is served meanwhile
		o.settled = true
		o.publisher.Settle(o.registry.Name())
	}
}

// back ends that the registry is away. What was saved stays stale until it was read.
func (o *origin) back() {
	if o.away != nil {
		o.trail.stir()
		o.log.Info("the registry can be asked again")
	}
	if o.away = nil; o.read && !o.stale.IsZero() {
		o.trail.stir()
		o.stale = time.Time{}
		o.stand()
	}
}

// apply checks changes, and publishes those that can be used.
func (o *origin) apply(changes []kinds.Change) {
	c := newChanges()
	encoded := o.encodeAll(changes)
	for i, change := range changes {
		o.take(&c, change, encoded[i])
	}
	o.publish(c)
}

func newChanges() publish.Changes {
	return publish.Changes{Upserts: map[*kinds.Kind][]*served.Resource{}, Removed: map[*kinds.Kind][]string{}}
}

func (o *origin) publish(c publish.Changes) {
	if len(c.Upserts)+len(c.Removed) > 0 {
		o.publisher.ApplyJoined(o.registry.Name(), c)
	}
}

// full reports whether there is no room for a resource, of which there was this.
func (o *origin) full(had item) bool { return had.served == nil && len(o.has) >= mostResources }

var errTooMany = fmt.Errorf("the registry has more than %d resources, and this one is left out", mostResources)

// take adds a change to those to publish, if it is one.
func (o *origin) take(c *publish.Changes, change kinds.Change, now encoded) {
	key, had := change.Key, o.has[change.Key]
	if change.Resource == nil {
		if _, was := o.wrong[key]; was {
			delete(o.wrong, key)
			delete(o.refused, key)
			o.trail.stir()
		}
		o.remove(c, key)
		return
	}
	if had.from == change.Resource {
		return
	}
	err := now.wrong
	if err == nil && o.full(had) {
		err = errTooMany
	}
	note(o, o.wrong, key, key.String(), err)
	delete(o.refused, key)
	if err != nil {
		o.refused[key] = change.Resource
		return
	}
	o.put(c, key, item{from: change.Resource, served: now.served, entry: change.Resource.Annotations[kinds.OriginEntryAnnotation]}, now.served)
}

// put has a resource, of which clients are sent what is said.
func (o *origin) put(c *publish.Changes, key kinds.Key, now item, sent *served.Resource) {
	had := o.has[key]
	o.has[key] = now
	if had.served != nil && had.served.Version == now.served.Version {
		return
	}
	o.trail.move(key)
	c.Upserts[key.Kind] = append(c.Upserts[key.Kind], sent)
	o.changes++
}

// remove has a resource no more.
func (o *origin) remove(c *publish.Changes, key kinds.Key) {
	if o.has[key].served == nil {
		return
	}
	delete(o.has, key)
	o.trail.move(key)
	c.Removed[key.Kind] = append(c.Removed[key.Kind], key.FullName())
	o.changes++
}

func (o *origin) find(key kinds.Key) (entry string, has bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	found, has := o.has[key]
	return found.entry, has
}

func (o *origin) get(key kinds.Key) *served.Resource {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.has[key].served
}

func (o *origin) keys(wanted func(kinds.Key) bool) (keys []kinds.Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.has {
		if key.Kind != kinds.Secret && wanted(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// Self implements registry.Chain.
func (o *origin) Self(ctx context.Context) (server, mesh string, err error) {
	return o.publisher.Self(ctx)
}

// Behind implements registry.Chain.
func (o *origin) Behind(servers, meshes []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.servers, o.meshes = servers, meshes
	o.stand()
}

var _ registry.Chain = (*origin)(nil)
