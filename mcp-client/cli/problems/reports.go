package problems

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// levelOf is what SARIF and GitHub call a severity, which they do alike but for mere information.
func levelOf(severity, information string) string {
	if severity == severityError || severity == severityWarning {
		return severity
	}
	return information
}

type object = map[string]any

// printSARIF prints problems as SARIF 2.1.0 has them.
func (p program) printSARIF(found []Problem) error {
	results, rules := []object{}, map[string]bool{}
	for _, f := range found {
		rules[f.Code] = true
		result := object{"ruleId": f.Code, "level": levelOf(f.Severity, "note"), "message": object{"text": f.String()}}
		location := object{"logicalLocations": []object{{"fullyQualifiedName": fmt.Sprintf("%s %s/%s", f.Kind, f.Space, f.Name), "kind": "resource"}}}
		if f.File != "" {
			location["physicalLocation"] = object{
				"artifactLocation": object{"uri": filepath.ToSlash(f.File)}, "region": object{"startLine": max(f.Line, 1)},
			}
		}
		result["locations"] = []object{location}
		results = append(results, result)
	}
	ids := []object{}
	for _, code := range slices.Sorted(maps.Keys(rules)) {
		ids = append(ids, object{"id": code})
	}
	return p.PrintTree(object{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{{
			"tool":    object{"driver": object{"name": "mcp-client", "version": version.Program(), "informationUri": "https://github.com/pgmesh/pgmesh", "rules": ids}},
			"results": results,
		}},
	})
}

// escapes are those of GitHub's workflow commands: of values and, with more, of properties.
var (
	ofValue    = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	ofProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// printAnnotations prints problems as commands of GitHub's workflows.
func (p program) printAnnotations(found []Problem) error {
	var b strings.Builder
	for _, f := range found {
		properties := []string{"title=" + ofProperty.Replace(f.Code)}
		if f.File != "" {
			properties = append(properties, "file="+ofProperty.Replace(filepath.ToSlash(f.File)), fmt.Sprintf("line=%d", max(f.Line, 1)))
		}
		fmt.Fprintf(&b, "::%s %s::%s\n", levelOf(f.Severity, "notice"), strings.Join(properties, ","), ofValue.Replace(f.String()))
	}
	return p.Print(b.String())
}
