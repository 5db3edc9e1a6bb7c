package register

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// roster holds all instances, and knows which of them it must still report to mcp-server. A lock
// guards it and the streams in it.
type roster struct {
	// group finds what is needed of a WorkloadGroup; nil if there is none, or not yet.
	group func(namespace, name string) *group
	wake  chan struct{} // receives when there is something to report

	mu        sync.Mutex
	machines  map[machineKey]*stream
	instances map[instanceKey]*instance
	byGroup   map[[2]string]map[*instance]struct{}
	byEntry   map[string]*instance
	refused   map[refusedKey]*instance
	queue     []*instance // in the order of their changes
	// away says why there is no session; "" while there is one, or before that is known. Passing
	// says whether the reason may go away without anybody's help.
	away    string
	passing bool
}

func newRoster(of func(namespace, name string) *group) *roster {
	return &roster{
		group: of, wake: make(chan struct{}, 1), machines: map[machineKey]*stream{}, instances: map[instanceKey]*instance{},
		byGroup: map[[2]string]map[*instance]struct{}{}, byEntry: map[string]*instance{}, refused: map[refusedKey]*instance{},
	}
}

// refusedKey is a service of a machine as its entry names it.
type refusedKey struct{ namespace, group, machine string }

func (k instanceKey) ofEntry() refusedKey { return refusedKey{k.namespace, k.group, k.id} }

// superseded ends a stream that a later one replaces.
func superseded(id string) error {
	return status.Errorf(codes.Aborted, "another stream of %q has begun after this one, and counts: two agents under one name would do so again and again; name one of them otherwise (--id)", id)
}

// describe records what a machine says of itself and its services.
func (b *roster) describe(s *stream, m *machinev1.Machine) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.over {
		return nil
	}
	if before := b.machines[s.key]; before != nil && before != s {
		if before.since >= m.GetSince() {
			return superseded(s.key.id)
		}
		before.end(superseded(s.key.id))
		b.retire(before)
	}
	b.machines[s.key] = s
	s.since, s.follows = m.GetSince(), m.GetFollows()
	s.unsay()
	named := map[string]bool{}
	for _, service := range m.GetServices() {
		named[service.GetGroup()] = true
		b.put(s, m, service)
	}
	for group, i := range s.instances { // services that it no longer has
		if !named[group] {
			delete(s.instances, group)
			delete(s.told, group)
			i.stream = nil
			b.end(i, machinev1.Change_STATE_LEFT)
		}
	}
	s.tellStanding(b.away)
	return nil
}

// put records a service, and has it reported if that changes it.
func (b *roster) put(s *stream, m *machinev1.Machine, service *machinev1.Service) {
	key := instanceKey{s.key, service.GetGroup()}
	i := b.instances[key]
	if i == nil {
		i = &instance{key: key}
		b.instances[key] = i
		group := [2]string{key.namespace, key.group}
		if b.byGroup[group] == nil {
			b.byGroup[group] = map[*instance]struct{}{}
		}
		b.byGroup[group][i] = struct{}{}
	}
	i.machine, i.service, i.caller, i.since, i.stream, i.state = m, service, s.caller, m.GetSince(), s, machinev1.Change_STATE_HERE
	s.instances[key.group] = i
	b.changed(i)
	b.answer(i)
}

// changed queues an instance to be reported.
func (b *roster) changed(i *instance) {
	i.version++
	b.enqueue(i)
}

// enqueue queues an instance, once, and wakes the session.
func (b *roster) enqueue(i *instance) {
	if !i.queued {
		i.queued = true
		b.queue = append(b.queue, i)
	}
	select {
	case b.wake <- struct{}{}:
	default: // whoever is woken takes all
	}
}

// report records the health of a service.
func (b *roster) report(s *stream, r *machinev1.HealthReport) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.over {
		return nil
	}
	i := s.instances[r.GetGroup()]
	if i == nil {
		return status.Errorf(codes.InvalidArgument, "the health of %q was reported, which is none of the services of this machine", r.GetGroup())
	}
	if i.service.GetHealth() == r.GetHealth() && i.service.GetDetail() == r.GetDetail() {
		return nil
	}
	i.service = proto.CloneOf(i.service)
	i.service.Health, i.service.Detail = r.GetHealth(), r.GetDetail()
	s.unsay()
	b.changed(i)
	s.tellStanding(b.away)
	return nil
}

// leave ends all services of a machine at once. The stream is told when mcp-server knows.
func (b *roster) leave(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.over || s.leaving {
		return
	}
	s.leaving, s.left = true, len(s.instances)
	for _, i := range s.instances {
		b.end(i, machinev1.Change_STATE_LEFT)
	}
	s.poke()
}

// close ends a stream. If it broke, its machine may come back; if its client was revoked, it counts
// as one that left.
func (b *roster) close(s *stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.over {
		return
	}
	state := machinev1.Change_STATE_GONE
	if s.caller.ShutOut != nil && s.caller.ShutOut() {
		state = machinev1.Change_STATE_LEFT
	}
	for _, i := range s.instances {
		if i.here() {
			b.end(i, state)
		}
	}
	b.retire(s)
}

// retire takes a stream out. Its instances belong to another stream by then, or are ending.
func (b *roster) retire(s *stream) {
	s.over = true
	if b.machines[s.key] == s {
		delete(b.machines, s.key)
	}
	for _, i := range s.instances {
		if i.stream == s {
			i.stream = nil
		}
	}
}

// end changes an instance to one that has left or is gone, and has that reported.
func (b *roster) end(i *instance, state machinev1.Change_State) {
	i.state = state
	b.changed(i)
}

// forget drops an instance that mcp-server knows to be gone.
func (b *roster) forget(i *instance) {
	i.forgotten = true
	if b.instances[i.key] == i {
		delete(b.instances, i.key)
	}
	group := [2]string{i.key.namespace, i.key.group}
	delete(b.byGroup[group], i)
	if len(b.byGroup[group]) == 0 {
		delete(b.byGroup, group)
	}
	b.unname(i)
	if s := i.stream; s != nil && s.leaving {
		s.left--
		s.poke()
	}
}

// unname takes the instance out of the indexes of entries and refusals.
func (b *roster) unname(i *instance) {
	if b.refused[i.key.ofEntry()] == i {
		delete(b.refused, i.key.ofEntry())
	}
	if name := entryName(i); b.byEntry[name] == i {
		delete(b.byEntry, name)
	}
}

func entryName(i *instance) string { return i.key.namespace + "/" + i.outcome.GetEntry() }

// groupChanged reports all instances of a group again, because their entries are made from it.
func (b *roster) groupChanged(namespace, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.byGroup[[2]string{namespace, name}] {
		if i.here() {
			b.changed(i)
			b.answer(i) // its probe may have changed
		}
	}
}

// entryGone has the instance reported again whose entry was removed.
func (b *roster) entryGone(namespace, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.byEntry[namespace+"/"+name]; i != nil && i.here() {
		b.changed(i)
	}
}

// entryMade has a refused instance reported again that has its entry now: what was in its way is
// gone.
func (b *roster) entryMade(of refusedKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := b.refused[of]; i != nil && i.here() {
		b.changed(i)
	}
}

// retry has all refused instances reported again.
func (b *roster) retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.instances {
		if i.here() && i.outcome.GetRefused() != "" {
			b.enqueue(i)
		}
	}
}

// begin starts a session, which is told everything.
func (b *roster) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range b.instances {
		i.sent = 0
		b.enqueue(i)
	}
}

// configured is called when there is a configuration. From then on what is known here is being
// reported.
func (b *roster) configured() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.away == unconfigured {
		b.away = ""
	}
}

// lost records why there is no session, and tells the machines that wait for an answer.
func (b *roster) lost(why string, passing bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away, b.passing = why, passing
	for _, i := range b.instances {
		i.sent = 0
		b.answer(i)
	}
	for _, s := range b.machines {
		s.tellStanding(b.away)
	}
}

// reported is a report about an instance.
type reported struct {
	of      *instance
	version uint64
	change  *machinev1.Change
}

// take returns the next reports, up to a number.
func (b *roster) take(most int) []reported {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(most, len(b.queue))
	batch := make([]reported, 0, n)
	for _, i := range b.queue[:n] {
		if i.queued = false; !i.forgotten {
			i.sent = i.version
			batch = append(batch, reported{i, i.version, i.change(b.group(i.key.namespace, i.key.group))})
		}
	}
	clear(b.queue[:n])
	if b.queue = b.queue[n:]; len(b.queue) == 0 {
		b.queue = nil
	} else {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
	return batch
}

// applyOutcomes applies the outcomes of a batch.
func (b *roster) applyOutcomes(batch []reported, outcomes []*machinev1.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = ""
	for k, r := range batch {
		r.of.sent = 0
		b.applyOutcome(r, outcomes[k])
	}
}

// applyOutcome applies the outcome of one report. The outcome of a report that is out of date
// counts only if it says that another stream of the machine has its place.
func (b *roster) applyOutcome(r reported, outcome *machinev1.Outcome) {
	i := r.of
	if r.version != i.version { // it has changed since: the next report counts, unless another machine has its place
		if outcome.GetSuperseded() && i.since == r.change.GetSince() {
			b.supersede(i)
		}
		return
	}
	switch {
	case !i.here():
		b.forget(i)
	case outcome.GetSuperseded():
		b.supersede(i)
	default:
		b.unname(i)
		i.outcome, i.known = outcome, r.version
		switch {
		case outcome.GetEntry() != "":
			b.byEntry[entryName(i)] = i
		case outcome.GetRefused() != "":
			b.refused[i.key.ofEntry()] = i
		}
		b.answer(i)
		if i.stream != nil {
			i.stream.tellStanding("")
		}
	}
}

// supersede ends a stream that is not the last of its machine. What it had belongs to another.
func (b *roster) supersede(i *instance) {
	s := i.stream
	b.forget(i)
	if s == nil {
		return
	}
	delete(s.instances, i.key.group)
	if !s.leaving {
		s.end(superseded(i.key.id))
	}
}

// answer tells the machine how its service stands, if that is new. "Registered" is sent together
// with the group's probe: if mcp-server has the group before it comes here, the machine would
// otherwise conclude that there is no probe.
func (b *roster) answer(i *instance) {
	s := i.stream
	if s == nil || !i.here() {
		return
	}
	var r *machinev1.RegisterResponse
	switch o := i.outcome; {
	case o.GetRefused() != "":
		r = refused(i.key.group, o.GetRefused(), false)
	case o != nil:
		of := b.group(i.key.namespace, i.key.group)
		if of == nil {
			return
		}
		r = &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Registered{Registered: &machinev1.Registered{
			Group: i.key.group, Entry: o.GetEntry(), Probe: of.probe, Follows: true,
		}}}
	case b.away != "":
		r = refused(i.key.group, b.away, b.passing)
	default:
		return // an answer is on its way
	}
	s.tell(i.key.group, r)
}

func refused(group, reason string, passing bool) *machinev1.RegisterResponse {
	return &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Refused{Refused: &machinev1.Refused{Group: group, Reason: reason, Passing: passing}}}
}
