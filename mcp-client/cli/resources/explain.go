package resources

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/jsonschema"
	"github.com/pgmesh/pgmesh/kinds/schema"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Explain returns the command explain.
func Explain(s *session.Session) *cobra.Command {
	p := program{s}
	var recursive bool
	cmd := &cobra.Command{
		Use:   "explain KIND[.FIELD...]",
		Short: "List the fields of a kind, or of a field of it",
		Long: `List the fields of a kind, or of a field of it, by the table that resources are checked with: types, which are required, what values may be,
and what proxies do not act on. NOTE begins to say what each is for, and -o wide has all of it, in the words of those who defined the kind. No server is needed. Through lists and maps a path leads by the names alone.
--recursive lists the fields of the fields, too.`,
		Example: `  mcp-client explain vs
  mcp-client explain virtualservice.spec.http.retries
  mcp-client explain vs.http -o wide
  mcp-client explain gtw.listeners -o json
  mcp-client explain dr --recursive -o name
  mcp-client explain vs.metadata`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name, rest, _ := strings.Cut(args[0], "."); kinds.IsSecretName(name) {
				return p.explainSecret(cmd, rest)
			}
			kind, path, err := kindAndPath(args[0])
			if err != nil {
				return failure.Usage(cmd, err)
			}
			if len(path) > 0 && path[0] == "metadata" {
				return p.explainMetadata(cmd, kind, path[1:])
			}
			if status := statusOfKind(kind); len(path) > 0 && path[0] == status.Name {
				return p.printExplained(kind.Name+"."+status.Name, []explained{status})
			}
			return p.explain(kind, path, recursive)
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "list the fields of the fields, too, by their paths")
	return cmd
}

// kindAndPath splits "vs.spec.http" and "gateways.gateway.networking.k8s.io.listeners": the longest
// beginning that is a kind is the kind.
func kindAndPath(text string) (*kinds.Kind, []string, error) {
	names := strings.Split(text, ".")
	for end := len(names); end > 0; end-- {
		kind, err := kinds.ByName(strings.Join(names[:end], "."))
		if err != nil {
			continue
		}
		path := names[end:]
		if len(path) > 0 && path[0] == "spec" {
			path = path[1:]
		}
		return kind, path, nil
	}
	_, err := kinds.ByName(names[0])
	return nil, nil, err
}

// explained is the printed form of a field.
type explained struct {
	Name       string   `json:"name"`
	Type       string   `json:"type"`
	Required   bool     `json:"required,omitempty"`
	Values     []string `json:"values,omitempty"`
	Bounds     string   `json:"bounds,omitempty"`
	NotActedOn string   `json:"notActedOn,omitempty"`
	ExcludedBy []string `json:"notWith,omitempty"`
	OtherNames []string `json:"aliases,omitempty"`
	// Description is as those who defined the kind have it.
	Description string `json:"description,omitempty"`
}

func (p program) explain(kind *kinds.Kind, path []string, recursive bool) error {
	at, known := schema.Root(kind.Group, kind.Name)
	if !known {
		return fmt.Errorf("the fields of %s are of free form", kind.Name)
	}
	var of *schema.Field
	var description string
	for i, name := range path {
		if at == nil {
			return fmt.Errorf("%s has no fields of its own", where(kind, path[:i]))
		}
		f := slices.IndexFunc(at.Fields, func(f schema.Field) bool { return strings.EqualFold(f.Name, name) || slices.Contains(f.Aliases, name) })
		if f < 0 {
			return unknownField(kind, path[:i], at, name)
		}
		of = &at.Fields[f]
		path[i] = of.Name
		description = jsonschema.Description(at.Name, of.Name)
		at = schema.Types()[of.TypeRef]
		if of.Type != schema.Message {
			at = nil
		}
	}
	fields := []explained{}
	switch {
	case at != nil && recursive:
		fields = explainTree(kind, path, "", []*schema.Type{at})
	case at != nil:
		for i := range at.Fields {
			fields = append(fields, explainField(kind, path, at, &at.Fields[i]))
		}
	case of != nil:
		fields = append(fields, explainField(kind, path[:len(path)-1], nil, of))
		fields[0].Description = description
		if p.Output.Format == output.Wide { // which has it in the row
			description = ""
		} else if p.Output.IsTable() { // the title has all of it
			fields[0].Description = ""
		}
	}
	title := where(kind, path)
	if description != "" {
		title += "\n" + description
	}
	return p.printExplained(title, fields)
}

// explainTree tells of all fields below the last of these types, each by its path. A type within itself
// is named, and not told of again.
func explainTree(kind *kinds.Kind, path []string, prefix string, within []*schema.Type) []explained {
	var all []explained
	of := within[len(within)-1]
	for i := range of.Fields {
		f := &of.Fields[i]
		e := explainField(kind, path, of, f)
		e.Name = prefix + f.Name
		all = append(all, e)
		if next := schema.Types()[f.TypeRef]; f.Type == schema.Message && next != nil && !slices.Contains(within, next) {
			all = append(all, explainTree(kind, append(slices.Clone(path), f.Name), e.Name+".", append(slices.Clone(within), next))...)
		}
	}
	return all
}

// metadata has the fields that resources of every kind have beside the spec.
var metadata = []explained{
	{Name: "name", Type: "string", Required: true, Bounds: "characters: 1 to 253", Description: "Name of the resource, which no other of the kind has in its namespace."},
	{Name: "namespace", Type: "string", Bounds: "characters: 63 at most", Description: "Namespace of the resource; that of -n if there is none."},
	{Name: "labels", Type: "map[string]string", Description: "Pairs by which resources are chosen, as by -l."},
	{Name: "annotations", Type: "map[string]string", Description: "Pairs for people and programs, which choose nothing."},
	{Name: "resourceVersion", Type: "string", Description: "Revision that changed the resource last, if it is given: apply, replace and patch then refuse to change what somebody has changed since."},
	{Name: "creationTimestamp", Type: "time", Description: "When the resource was made. The server sets it."},
}

func (p program) explainMetadata(cmd *cobra.Command, kind *kinds.Kind, path []string) error {
	return p.explainAmong(cmd, kind.Name+".metadata", words.Kind(kind)+".metadata", metadata, path)
}

// explainAmong tells of fields that are in no schema, or of the one of a path. Word is what explain has to be asked for to have them all.
func (p program) explainAmong(cmd *cobra.Command, title, word string, fields []explained, path []string) error {
	if len(path) == 0 {
		return p.printExplained(title, fields)
	}
	i := slices.IndexFunc(fields, func(e explained) bool { return strings.EqualFold(e.Name, path[0]) })
	if i < 0 || len(path) > 1 {
		return failure.Usage(cmd, fmt.Errorf("%s has no field %q; mcp-client explain %s lists those that it has", title, strings.Join(path, "."), word))
	}
	return p.printExplained(title+"."+fields[i].Name, fields[i:i+1])
}

// statusOfKind is what is known beforehand of the status of resources.
func statusOfKind(kind *kinds.Kind) explained {
	return explained{
		Name: "status", Type: "object",
		Description: fmt.Sprintf("The server writes it: mcp-client get %s NAME -o yaml shows it. What a file has of it is left aside.", words.Kind(kind)),
	}
}

// secretFields are those that a Secret has in place of a spec.
var secretFields = []explained{
	{Name: "type", Type: "string", Description: "What data has to have, such as kubernetes.io/tls. The default is Opaque."},
	{Name: "data", Type: "map[string]string", Description: "Values by their names, in base64."},
	{Name: "stringData", Type: "map[string]string", Description: "Values as plain text, in place of those that data has under the same names."},
	{Name: "serviceAccounts", Type: "[]string", Description: "Service accounts of the gateways that are given the key, or * for all. Kubernetes has no such field."},
}

func (p program) explainSecret(cmd *cobra.Command, path string) error {
	steps := strings.FieldsFunc(path, func(r rune) bool { return r == '.' })
	if len(steps) > 0 && steps[0] == "metadata" {
		return p.explainMetadata(cmd, kinds.Secret, steps[1:])
	}
	if len(steps) == 0 {
		return p.printExplained("Secret\nIt is written as Kubernetes does (apiVersion: v1), and has no spec. mcp-client create secret makes one.", secretFields)
	}
	return p.explainAmong(cmd, kinds.Secret.Name, "secret", secretFields, steps)
}

func where(kind *kinds.Kind, path []string) string {
	return strings.Join(append([]string{kind.Name + ".spec"}, path...), ".")
}

func unknownField(kind *kinds.Kind, path []string, at *schema.Type, name string) error {
	var names []string
	for _, f := range at.Fields {
		names = append(names, f.Name)
	}
	if near := arguments.Nearest(name, names); near != "" {
		return fmt.Errorf("%s has no field %q (did you mean %q?)", where(kind, path), name, near)
	}
	if len(names) == 0 {
		return errors.New(where(kind, path) + " has no fields")
	}
	return fmt.Errorf("%s has no field %q (there are %s)", where(kind, path), name, strings.Join(names, ", "))
}

// explainField tells of a field of a type; of is nil where that is not known.
func explainField(kind *kinds.Kind, path []string, of *schema.Type, f *schema.Field) explained {
	e := explained{Name: f.Name, Type: typeOf(f), Required: f.Required, Values: f.Enum, Bounds: boundsOf(f), OtherNames: f.Aliases}
	if of != nil {
		e.Description = jsonschema.Description(of.Name, f.Name)
		for _, set := range of.Oneofs {
			if slices.Contains(set, f.Name) {
				e.ExcludedBy = slices.DeleteFunc(slices.Clone(set), func(name string) bool { return name == f.Name })
			}
		}
	}
	full := strings.Join(append(slices.Clone(path), f.Name), ".")
	for _, u := range schema.AllUnsupported() {
		if u.Group == kind.Group && slices.Contains(u.Kinds, kind.Name) && (u.Path == full || u.Path == "") {
			e.NotActedOn = u.Reason
			if u.When != "" {
				e.NotActedOn = "in part: " + u.Reason
			}
		}
	}
	return e
}

func typeOf(f *schema.Field) string {
	name := f.Type
	if f.Type == schema.Message {
		name = "object"
	}
	switch {
	case f.Repeated:
		return "[]" + name
	case f.Map:
		return "map[string]" + name
	}
	return name
}

// boundsOf says in words what the values of a field may be.
func boundsOf(f *schema.Field) string {
	var all []string
	between := func(what string, low, high string) {
		switch {
		case low != "" && high != "":
			all = append(all, fmt.Sprintf("%s%s to %s", what, low, high))
		case low != "":
			all = append(all, fmt.Sprintf("%s%s or more", what, low))
		case high != "":
			all = append(all, fmt.Sprintf("%s%s at most", what, high))
		}
	}
	between("", number(f.Min), number(f.Max))
	between("", f.MinDuration, f.MaxDuration)
	between("characters: ", whole(f.MinLength), whole(f.MaxLength))
	between("items: ", whole(f.MinItems), whole(f.MaxItems))
	if f.Pattern != "" {
		all = append(all, "matches "+f.Pattern)
	}
	return strings.Join(all, "; ")
}

func number(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}

func whole(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

// mostOfSentence is how many characters of a description are in the table.
const mostOfSentence = 80

// firstSentence is the beginning of a description, cut after a word if it is long.
func firstSentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if end := strings.Index(text, ". "); end >= 0 {
		text = text[:end+1]
	}
	if characters := []rune(text); len(characters) > mostOfSentence {
		text = string(characters[:mostOfSentence-1])
		if end := strings.LastIndex(text, " "); end > 0 {
			text = text[:end]
		}
		text += "…"
	}
	return text
}

func (p program) printExplained(title string, fields []explained) error {
	out := output.Listing{Tree: fields, Columns: []string{"FIELD", "TYPE", "REQUIRED", "VALUES", "NOTE"}, Wide: []string{"DESCRIPTION"}}
	for _, f := range fields {
		required := "-"
		if f.Required {
			required = "yes"
		}
		values := strings.Join(f.Values, ", ")
		if f.Bounds != "" {
			values = strings.TrimPrefix(values+"; "+f.Bounds, "; ")
		}
		var notes []string
		if f.NotActedOn != "" {
			notes = append(notes, "not acted on: "+f.NotActedOn)
		}
		if len(f.ExcludedBy) > 0 {
			notes = append(notes, "not with "+strings.Join(f.ExcludedBy, ", "))
		}
		if first := firstSentence(f.Description); first != "" && p.Output.Format != output.Wide { // which has all of it
			notes = append(notes, first)
		}
		out.Add(f.Name, f.Name, f.Type, required, words.OrDash(values), words.OrDash(strings.Join(notes, "; ")), words.OrDash(f.Description))
	}
	if p.Output.IsTable() {
		fmt.Fprintln(p.Err, title)
	}
	return p.PrintListing(out)
}
