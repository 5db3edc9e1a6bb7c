package admin

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema/predicate"
	"github.com/pgmesh/pgmesh/mcp-server/reference"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

// fields reads the fields of a request and gathers everything that is wrong with them, to report it
// all at once.
type fields struct {
	violations []*errdetails.BadRequest_FieldViolation
}

func (f *fields) addf(field, format string, args ...any) {
	f.violations = append(f.violations, &errdetails.BadRequest_FieldViolation{Field: field, Description: fmt.Sprintf(format, args...)})
}

// err returns the status that lists what is wrong; nil if nothing is.
func (f *fields) err() error {
	if len(f.violations) == 0 {
		return nil
	}
	var lines []string
	for _, v := range f.violations[:min(len(f.violations), maxSummarised)] {
		lines = append(lines, v.GetField()+": "+v.GetDescription())
	}
	if more := len(f.violations) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return withDetails(codes.InvalidArgument, strings.Join(lines, "\n"), &errdetails.BadRequest{FieldViolations: f.violations[:min(len(f.violations), maxDetails)]})
}

// selectionRequest is a request that selects resources.
type selectionRequest interface {
	GetKinds() []string
	GetNamespaces() []string
	GetNames() []string
}

func (f *fields) selection(c selectionRequest) resources.Selection {
	return resources.Selection{
		Kinds: f.kinds(c.GetKinds()), Namespaces: f.namespaces(c.GetNamespaces()), Names: f.texts("names", c.GetNames()),
	}
}

func (f *fields) kinds(words []string) []*kinds.Kind {
	var of []*kinds.Kind
	for i, word := range f.texts("kinds", words) {
		kind, err := kinds.ByName(word)
		if err != nil {
			f.addf(fmt.Sprintf("kinds[%d]", i), "%v", err)
			continue
		}
		of = append(of, kind)
	}
	return of
}

func (f *fields) namespaces(named []string) []string {
	var list []string
	for _, n := range f.texts("namespaces", named) {
		list = append(list, reference.Namespace(n))
	}
	return list
}

const (
	maxListLength  = 1000
	maxNameBytes   = 512
	maxFilterBytes = 8 << 10
)

func (f *fields) texts(field string, list []string) []string {
	if len(list) > maxListLength {
		f.addf(field, "must be at most %d, are %d", maxListLength, len(list))
		return nil
	}
	for i, text := range list {
		f.text(fmt.Sprintf("%s[%d]", field, i), text, maxNameBytes)
	}
	return list
}

// text refuses NUL, which Postgres cannot store, and text that is too long.
func (f *fields) text(field, value string, longest int) string {
	switch {
	case strings.ContainsRune(value, 0):
		f.addf(field, "must not contain the character NUL")
	case len(value) > longest:
		f.addf(field, "must be at most %d bytes long, is %d", longest, len(value))
	}
	return value
}

func (f *fields) labels(text string) selector.Selector {
	s, err := selector.Parse(f.text("label_selector", text, maxFilterBytes))
	if err != nil {
		f.addf("label_selector", "%v", err)
	}
	return s
}

func (f *fields) where(text string) string {
	if f.text("where", text, maxFilterBytes) == "" {
		return ""
	}
	parsed, err := predicate.Read(text)
	switch {
	case err != nil:
		f.addf("where", `is not a path of SQL/JSON: %v; write for instance $.hosts[*] == "reviews"`, err)
	case !parsed.IsPredicate():
		f.addf("where", `is a path and not a predicate, which is true or false: write for instance $.hosts[*] == "reviews", or exists(%s)`, text)
	}
	return text
}

// moment reads a revision or, where that is nil, a time.
func (f *fields) moment(field string, revision *int64, at *timestamppb.Timestamp) store.Moment {
	if revision != nil {
		if *revision < 0 {
			f.addf(field+"revision", "must not be negative")
		}
		return store.When(*revision)
	}
	return store.Moment{Time: f.time(field+"time", at)}
}

func (f *fields) time(field string, at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	if err := at.CheckValid(); err != nil {
		f.addf(field, "%v", err)
	}
	return at.AsTime()
}

const maxConfirmWithin = 30 * 24 * time.Hour

func (f *fields) confirm(within *durationpb.Duration) time.Duration {
	if within == nil {
		return 0
	}
	d := within.AsDuration()
	if err := within.CheckValid(); err != nil {
		f.addf("confirm_within", "%v", err)
	} else if d < time.Millisecond || d > maxConfirmWithin {
		f.addf("confirm_within", "must be between a millisecond and 30 days, is %s", d)
	}
	return d
}

// size reads a page size: 0 means the default, and more than the maximum means the maximum.
func (f *fields) size(asked int32, usual, most int) int {
	switch {
	case asked < 0:
		f.addf("page_size", "must not be negative")
	case asked == 0:
		return usual
	}
	return min(int(asked), most)
}

// revision reads a required revision.
func (f *fields) revision(r int64) store.Revision {
	if r <= 0 {
		f.addf("revision", "name a revision; they count from 1")
	}
	return r
}

// resource reads a required reference to a resource.
func (f *fields) resource(ref *adminv1.ResourceRef) kinds.Key {
	if ref == nil {
		f.addf("resource", "is missing")
		return kinds.Key{}
	}
	key, reason := keyOf(ref)
	if reason != "" {
		f.addf("resource", "%s", reason)
	}
	return key
}

func (f *fields) expected(list []*adminv1.ExpectedRevision) []resources.Expected {
	var expected []resources.Expected
	seen := map[kinds.Key]bool{}
	for i, e := range list {
		field := fmt.Sprintf("expected[%d].", i)
		key, reason := keyOf(e.GetResource())
		switch {
		case reason != "":
			f.addf(field+"resource", "%s", reason)
		case e.GetRevision() < 0:
			f.addf(field+"revision", "must not be negative")
		case seen[key]:
			f.addf(field+"resource", "%s is expected twice", key)
		}
		seen[key] = true
		expected = append(expected, resources.Expected{Key: key, Revision: e.GetRevision()})
	}
	return expected
}
