package provider

import (
	"regexp"
	"strings"
)

var aFlag = regexp.MustCompile(`--[a-z]+(-[a-z]+)*`)

// inArguments writes flags as the arguments that stand for them.
func inArguments(text string) string {
	return aFlag.ReplaceAllStringFunc(text, func(flag string) string { return argumentOf(strings.TrimPrefix(flag, "--")) })
}

// inTerraform says an error of mcp-client's in the words of Terraform.
func inTerraform(err error) string { return inArguments(err.Error()) }
