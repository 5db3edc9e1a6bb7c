// Linkgen writes the functions by which the database reads names out of specs, made from the table
// of kinds/reference.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/reference"
)

func main() {
	out := flag.String("o", "", "the file to write")
	flag.Parse()
	if err := os.WriteFile(*out, []byte(script()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const head = `-- Made by go generate from kinds/reference/references.yaml, which says what each kind names and how; do not edit it.
-- A row is what a resource names in one place, as mesh_internal.links has it.

`

const columns = "role text, target text, part text, port int, scope text[], detail jsonb, path text"

func script() string {
	var b strings.Builder
	b.WriteString(head)
	var cases []string
	for _, k := range kinds.All() {
		selects := below(reference.Places(k), "spec", literal("spec"), 1)
		if len(selects) == 0 {
			continue
		}
		b.WriteString(function(k, selects))
		cases = append(cases, "  WHEN kind = '"+k.Name+"' AND api_group = '"+k.Group+"' THEN RETURN QUERY SELECT * FROM mesh_internal."+nameOf(k)+"(namespace, spec);\n")
	}
	b.WriteString("-- names_in is every name that a resource has in its spec.\n" +
		"CREATE OR REPLACE FUNCTION mesh_internal.names_in(kind text, api_group text, namespace text, spec jsonb)\nRETURNS TABLE (" + columns + ")\n" +
		"LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$\nBEGIN\n  CASE\n" +
		strings.Join(cases, "") + "  ELSE\n  END CASE;\nEND $$;\n\n")
	b.WriteString(elsewhere())
	return b.String()
}

func function(k *kinds.Kind, selects []query) string {
	body := union(selects, "  ")
	if strings.Contains(body, "obeyed_by.scope") {
		body = "  SELECT x.* FROM (SELECT mesh_internal.exported(spec -> 'exportTo', namespace) OFFSET 0) AS e (scope),\n" +
			"    LATERAL (SELECT mesh_internal.obeyed_by(e.scope, namespace) OFFSET 0) AS obeyed_by (scope), LATERAL (\n" +
			union(selects, "    ") + "  ) AS x\n"
	}
	return "CREATE OR REPLACE FUNCTION mesh_internal." + nameOf(k) + "(namespace text, spec jsonb)\nRETURNS TABLE (" + columns + ")\nLANGUAGE sql IMMUTABLE AS $$\n" + body + "$$;\n\n"
}

// nameOf is the function for a kind. Two kinds are called Gateway.
func nameOf(k *kinds.Kind) string {
	var b strings.Builder
	for i, r := range k.Name {
		upper := r >= 'A' && r <= 'Z'
		next := i+1 < len(k.Name) && k.Name[i+1] >= 'a'
		if upper && i > 0 && (k.Name[i-1] >= 'a' || next) {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	name := strings.ToLower(b.String())
	if k.Name == "Gateway" && k.Group == "networking.istio.io" {
		name = "istio_" + name
	}
	return "names_in_" + name
}
