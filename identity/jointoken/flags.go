package jointoken

import (
	"time"

	"github.com/spf13/pflag"
)

// DefaultLifetime is how long a join token is valid if nothing else is said.
const DefaultLifetime = time.Hour

// ServerFlag declares the flag of commands that make tokens for servers, which become members as
// programs.
func ServerFlag(f *pflag.FlagSet, program *string) {
	f.StringVar(program, "for", "", "make a join token for a server: discovery, or mcp-server, which is a relay")
}
