package inspect

import (
	"fmt"
	"regexp"
	"slices"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// selection is the part of a dump that is asked for.
type selection struct {
	types []string       // none means those of Envoy's own dump
	name  *regexp.Regexp // nil means all
}

// has reports whether a section is asked for. A section that Envoy's own dump lacks must be named,
// because a tool for that dump may not know the message. Scopes count as routes, too.
func (s selection) has(of section) bool {
	if of.typeURL == push.ScopedRouteType && slices.Contains(s.types, "routes") {
		return true
	}
	return len(s.types) == 0 && of.dump != nil || slices.Contains(s.types, of.name)
}

func (s selection) named(name string) bool { return s.name == nil || s.name.MatchString(name) }

// dump returns what discovery has for a client as JSON.
func dump(c client, wanted selection) ([]byte, error) {
	out, err := dumpOf(c, wanted)
	if err != nil {
		return nil, err
	}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("write what discovery has for %s: %w", c.id(), err)
	}
	return text, nil
}

// dumpOf returns what discovery has for a client, in the form of Envoy's own dump.
func dumpOf(c client, wanted selection) (*adminv3.ConfigDump, error) {
	out := &adminv3.ConfigDump{}
	for _, s := range sections {
		if !wanted.has(s) {
			continue
		}
		all, err := c.dumped(s.typeURL, wanted)
		if err != nil {
			return nil, err
		}
		if err := s.add(out, c.snapshot.Revision, all); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// dumped lists the resources of a type, without what is sensitive in them.
func (c client) dumped(typeURL string, wanted selection) (all []dumped, err error) {
	state := c.state(typeURL)
	for r := range c.snapshot.Sets[typeURL].All() {
		if !wanted.named(r.Name) {
			continue
		}
		d, err := dumpedAs(r, state)
		if err == nil && typeURL == push.RouteType {
			err = withHosts(d.body, c.snapshot)
		}
		if err != nil {
			return nil, fmt.Errorf("show %s: %w", r.Name, err)
		}
		all = append(all, d)
	}
	return all, nil
}

// dumpedAs returns a resource as the client has it. If the client refuses it, that is the version
// before, with the failure beside it.
func dumpedAs(r *served.Resource, t ads.TypeState) (dumped, error) {
	body, err := shown(r)
	if err != nil {
		return dumped{}, err
	}
	d := dumped{name: r.Name, version: r.Version, body: body, status: standing(r, t)}
	at := slices.IndexFunc(t.Refused, func(f quarantine.Refused) bool { return f.Name == r.Name && f.Version == r.Version })
	if at < 0 {
		return d, nil
	}
	f := t.Refused[at]
	d.status = adminv3.ClientResourceStatus_NACKED
	d.failure = &adminv3.UpdateFailureState{
		FailedConfiguration: body, VersionInfo: f.Version, Details: reason(t.TypeURL, f.Reason), LastUpdateAttempt: timestamppb.New(f.Since),
	}
	if has := t.Has.Get(r.Name); has != nil && has.Body != nil {
		d.version = has.Version
		d.body, err = shown(has)
	}
	return d, err
}

// shown returns a copy of a resource's body without secrets.
func shown(r *served.Resource) (*anypb.Any, error) {
	body := &anypb.Any{TypeUrl: r.Body.GetTypeUrl(), Value: r.Body.GetValue()}
	return body, redactPacked(body)
}

// standing says in Envoy's words how a resource stands with a client. It says nothing of what the
// client has not asked for.
func standing(r *served.Resource, t ads.TypeState) adminv3.ClientResourceStatus {
	switch has := t.Has.Get(r.Name); {
	case has == nil:
		return adminv3.ClientResourceStatus_UNKNOWN
	case has.Version != r.Version || t.Unanswered:
		return adminv3.ClientResourceStatus_REQUESTED
	}
	return adminv3.ClientResourceStatus_ACKED
}
