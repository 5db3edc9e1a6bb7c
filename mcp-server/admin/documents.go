package admin

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/kinds/schema"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/resources"
)

// unsealed parses documents that may not be secrets; withSecrets takes secrets too.
var (
	unsealed    = kinds.Parser{DefaultNamespace: "default", Examine: examine}
	withSecrets = kinds.Parser{DefaultNamespace: "default", Secrets: true, Examine: examine}
)

// examine finds further problems: those of Envoy's messages, and that a resource is not the mesh's
// own.
func examine(r *kinds.Resource) []schema.Problem {
	found := envoy.Examine(r)
	for _, key := range kinds.OriginAnnotations() {
		if _, written := r.Annotations[key]; !written {
			continue
		}
		problem := schema.Problem{
			Path: schema.Member("metadata.annotations", key), Reason: "is for resources of registries, which servers mark themselves",
			Hint: "for a resource of the mesh's own, give it another name and leave out the annotations of pgmesh.io",
		}
		if registry := r.Origin(); registry != "" {
			problem.Reason = "says that it comes from the registry " + terse.Text(registry, mostEntry) + ": change it there"
		}
		return append(found, problem)
	}
	return found
}

// readAs parses the documents of a request. Its error lists everything that is wrong with any of
// them.
func readAs(as kinds.Parser, sent []*adminv1.Document) ([]*kinds.Document, error) {
	if len(sent) == 0 {
		return nil, kinds.Errors{{Reason: "there is no document in the request"}}
	}
	var (
		documents  []*kinds.Document
		violations kinds.Errors
		first      = map[kinds.Key]place{}
	)
	for _, d := range sent {
		written, wrong := readOne(as, d)
		violations = append(violations, wrong...)
		for _, document := range written {
			key := document.Resource.Key()
			if earlier, dup := first[key]; dup {
				violations = append(violations, duplicate(document, earlier))
				continue
			}
			first[key] = placeOf(document)
			documents = append(documents, document)
		}
	}
	if len(violations) > 0 {
		return nil, violations
	}
	return documents, nil
}

// readOne parses one document as sent. It may hold several resources unless it has an index in its
// file.
func readOne(as kinds.Parser, sent *adminv1.Document) ([]*kinds.Document, kinds.Errors) {
	parsed, err := as.Parse(sent.GetFile(), sent.GetContent())
	var violations kinds.Errors
	switch {
	case errors.As(err, &violations):
		for i := range violations {
			shift(&violations[i].Document, &violations[i].Line, sent)
		}
		return nil, violations
	case err != nil:
		violations = kinds.Errors{{Reason: err.Error()}}
	case len(parsed) == 0 || len(parsed) > 1 && sent.GetIndex() > 0:
		violations = kinds.Errors{{Reason: fmt.Sprintf("there are %d resources in it, expected one", len(parsed))}}
	default:
		for _, document := range parsed {
			shift(&document.Index, &document.Line, sent)
		}
		return parsed, nil
	}
	violations[0].File, violations[0].Document, violations[0].Line = sent.GetFile(), int(sent.GetIndex()), int(sent.GetLine())
	return nil, violations
}

// shift turns a place within the document's content into the place within the file that it was cut
// from.
func shift(index, line *int, sent *adminv1.Document) {
	if sent.GetIndex() > 0 || sent.GetLine() == 0 {
		*index = int(sent.GetIndex())
	}
	switch {
	case sent.GetLine() == 0:
		*line = 0
	case *line > 0:
		*line += int(sent.GetLine()) - 1
	default:
		*line = int(sent.GetLine())
	}
}

// expectVersions makes a change expect the revisions that documents give as their resourceVersion. A file that is applied a second time is no
// mistake: a resource that is as its document has it may be of a later one.
func expectVersions(change *resources.Apply, documents []*kinds.Document) error {
	var wrong kinds.Errors
	for _, d := range documents {
		if d.ResourceVersion == "" {
			continue
		}
		if d.Resource.Kind == kinds.Secret {
			wrong = append(wrong, withPlace(d, kinds.Violation{
				Path: "metadata.resourceVersion", Reason: "cannot be asked for: what secrets were is not kept", Hint: "leave it out",
			}))
			continue
		}
		revision, err := strconv.ParseInt(d.ResourceVersion, 10, 64)
		if err != nil || revision < 0 {
			wrong = append(wrong, withPlace(d, kinds.Violation{
				Path: "metadata.resourceVersion", Reason: fmt.Sprintf("%q is not a revision", d.ResourceVersion), Hint: "read the resource from here, or leave it out",
			}))
			continue
		}
		change.Expected = slices.DeleteFunc(change.Expected, func(e resources.Expected) bool { return e.Key == d.Resource.Key() })
		change.Expected = append(change.Expected, resources.Expected{Key: d.Resource.Key(), Revision: revision, OrSame: revision > 0})
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}

// withPlace fills in which resource a violation is about, and where that was written.
func withPlace(d *kinds.Document, v kinds.Violation) kinds.Violation {
	v.File, v.Document, v.Line = d.File, d.Index, d.Line
	v.Kind, v.Namespace, v.Name = d.Resource.Kind.Name, d.Resource.Namespace, d.Resource.Name
	return v
}

// place is where a document was written.
type place struct {
	file        string
	index, line int
}

func placeOf(d *kinds.Document) place { return place{d.File, d.Index, d.Line} }

func (p place) String() string {
	text := fmt.Sprintf("document %d", p.index)
	if p.line > 0 {
		text += fmt.Sprintf(", line %d", p.line)
	}
	if p.file != "" {
		text = p.file + ", " + text
	}
	return text
}

func duplicate(d *kinds.Document, first place) kinds.Violation {
	return withPlace(d, kinds.Violation{Path: "metadata.name", Reason: "duplicate of " + first.String(), Hint: "name each resource once"})
}

// addPlaces adds to the store's violations where each resource was written, which the store does
// not know.
func addPlaces(err error, documents []*kinds.Document) error {
	var violations kinds.Errors
	if !errors.As(err, &violations) {
		return err
	}
	type name struct{ kind, namespace, name string }
	written := map[name]*kinds.Document{}
	for _, d := range documents {
		written[name{d.Resource.Kind.Name, d.Resource.Namespace, d.Resource.Name}] = d
	}
	for i, v := range violations {
		if d, ok := written[name{v.Kind, v.Namespace, v.Name}]; ok {
			violations[i] = withPlace(d, v)
		}
	}
	return violations
}
