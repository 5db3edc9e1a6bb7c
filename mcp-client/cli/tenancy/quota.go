// Package tenancy has the commands that share a mesh: quotas, owners of hosts, and whether
// everything is denied by default.
package tenancy

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Quota returns the command quota.
func Quota(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Listing(&cobra.Command{
		Use:   "quota",
		Short: "Show what namespaces have and may have, and set it",
		Long: `Show what namespaces have and may have, and set it: how many resources, how large they may be together and each, and how much its
changes may add to the history in a day. The size of one holds for everybody; the rest holds for those who may not write to every namespace. How
large they are together is told as proxies have them: a VirtualService counts once for each of its hosts, and a ServiceEntry has 8 KiB for each port
of each host.`,
	}, p.listQuotasCommand(), p.setQuotaCommand(), p.resetQuotaCommand())
}

// quota is the printed form of a quota.
type quota struct {
	Namespace        string `json:"namespace"`
	Resources        int64  `json:"resources"`
	MaxResources     int64  `json:"maxResources"`
	Bytes            int64  `json:"bytes"`
	MaxBytes         int64  `json:"maxBytes"`
	ResourceMaxBytes int64  `json:"resourceMaxBytes"`
	WrittenToday     int64  `json:"writtenToday"`
	MaxDailyBytes    int64  `json:"maxDailyBytes"`
}

func (p program) listQuotasCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list [NAMESPACE...]",
		Short: "Show what namespaces have and may have",
		Long:  `Show what namespaces have and may have: those that are named, or that of -n, or else all that you may read.`,
		Example: `  mcp-client quota list
  mcp-client quota list shop -o json`,
		RunE: func(cmd *cobra.Command, args []string) error { return p.listQuotas(cmd.Context(), args) },
	}
}

func (p program) listQuotas(ctx context.Context, namespaces []string) error {
	if len(namespaces) == 0 {
		namespaces = p.Namespace.Requested()
	}
	resp, err := session.Call(ctx, p.Session, adminv1.NewTenancyServiceClient, adminv1.TenancyServiceClient.ListQuotas, &adminv1.ListQuotasRequest{Namespaces: namespaces})
	if err != nil {
		return err
	}
	list := []quota{}
	for _, q := range resp.GetQuotas() {
		list = append(list, quota{
			q.GetNamespace(), q.GetResources(), q.GetMaxResources(), q.GetBytes(), q.GetMaxBytes(), q.GetResourceMaxBytes(), q.GetWrittenToday(), q.GetMaxDailyBytes(),
		})
	}
	out := output.Listing{Tree: list, Columns: []string{"NAMESPACE", "RESOURCES", "OF", "USED", "SIZE", "OF", "USED", "ONE AT MOST", "WRITTEN TODAY", "OF", "USED"}}
	for _, q := range list {
		out.Add(q.Namespace, q.Namespace, strconv.FormatInt(q.Resources, 10), strconv.FormatInt(q.MaxResources, 10), percent(q.Resources, q.MaxResources),
			inBytes(q.Bytes), inBytes(q.MaxBytes), percent(q.Bytes, q.MaxBytes), inBytes(q.ResourceMaxBytes),
			inBytes(q.WrittenToday), inBytes(q.MaxDailyBytes), percent(q.WrittenToday, q.MaxDailyBytes))
	}
	return p.PrintListing(out)
}

func (p program) setQuotaCommand() *cobra.Command {
	var resources int64
	var total, each, daily string
	cmd := &cobra.Command{
		Use:   "set (NAMESPACE | --all-namespaces) [--resources N] [--size SIZE] [--resource-size SIZE] [--daily SIZE]",
		Short: "Set what a namespace may have",
		Long: `Set what a namespace may have; with --all-namespaces, what all may have that have nothing of their own. What is not named stays as it is. What is there
already stays: only what is written from then on is held to it. It takes the scope write for all namespaces.`,
		Example: `  mcp-client quota set shop --resources 20000 --size 256MiB
  mcp-client quota set --all-namespaces --resource-size 512KiB`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := quotaOf(args, p.Namespace.All)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			if cmd.Flags().Changed("resources") {
				if resources <= 0 {
					return failure.Usage(cmd, fmt.Errorf("--resources %d: one at least; quota reset goes back to the default", resources))
				}
				req.MaxResources = &resources
			}
			var wrong [3]error
			req.MaxBytes, wrong[0] = optionalBytes("--size", total)
			req.ResourceMaxBytes, wrong[1] = optionalBytes("--resource-size", each)
			req.MaxDailyBytes, wrong[2] = optionalBytes("--daily", daily)
			if err := errors.Join(wrong[:]...); err != nil {
				return failure.Usage(cmd, err)
			}
			return p.setQuota(cmd.Context(), req)
		},
	}
	cmd.Flags().Int64Var(&resources, "resources", 0, "how many resources it may have")
	cmd.Flags().StringVar(&total, "size", "", "how large they may be together, as proxies have them: 64MiB")
	cmd.Flags().StringVar(&each, "resource-size", "", "how large one may be, whoever writes it: 512KiB")
	cmd.Flags().StringVar(&daily, "daily", "", "how much its changes may add to the history in a day, of UTC: 1GiB")
	return cmd
}

func (p program) resetQuotaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "reset (NAMESPACE | --all-namespaces)",
		Short: "Have a namespace's quota be that of all again",
		Long:  `Have a namespace's quota be that of all namespaces again; with --all-namespaces, have that be what it is by default.`,
		Example: `  mcp-client quota reset shop
  mcp-client quota reset --all-namespaces`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req, err := quotaOf(args, p.Namespace.All)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			usual := int64(0)
			req.MaxResources, req.MaxBytes, req.ResourceMaxBytes, req.MaxDailyBytes = &usual, &usual, &usual, &usual
			return p.setQuota(cmd.Context(), req)
		},
	}
}

// quotaOf returns a request for the quota of a namespace, or for the default.
func quotaOf(args []string, everywhere bool) (*adminv1.SetQuotaRequest, error) {
	if (len(args) == 1) == everywhere {
		return nil, errors.New("name a namespace, or say --all-namespaces for what holds where one has nothing of its own")
	}
	if everywhere {
		return &adminv1.SetQuotaRequest{}, nil
	}
	return &adminv1.SetQuotaRequest{Namespace: args[0]}, nil
}

func (p program) setQuota(ctx context.Context, req *adminv1.SetQuotaRequest) error {
	if req.MaxResources == nil && req.MaxBytes == nil && req.ResourceMaxBytes == nil && req.MaxDailyBytes == nil {
		return failure.Usage(nil, errors.New("say what to set: --resources, --size, --resource-size or --daily"))
	}
	if _, err := session.Call(ctx, p.Session, adminv1.NewTenancyServiceClient, adminv1.TenancyServiceClient.SetQuota, req); err != nil {
		return err
	}
	whose := "of all namespaces"
	if req.GetNamespace() != "" {
		whose = "of " + req.GetNamespace()
	}
	return p.Print("set the quota " + whose + "\n")
}

// units are the units of sizes, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// inBytes formats a size for people.
func inBytes(n int64) string {
	for _, u := range units {
		if n >= 10*u.bytes || n >= u.bytes && n%u.bytes == 0 {
			return strconv.FormatInt((n+u.bytes/2)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// optionalBytes parses the size of a flag, nil if it was not given. It must be more than zero.
func optionalBytes(flag, text string) (*int64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // it was not given
	}
	number, unit := text, int64(1)
	for _, u := range units {
		if n, is := strings.CutSuffix(text, u.name); is {
			number, unit = n, u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)/unit {
		return nil, fmt.Errorf("%s: %q is no size: write 512KiB, 64MiB, 1GiB, or a number of bytes", flag, text)
	}
	n *= unit
	return &n, nil
}

func percent(n, of int64) string {
	if of == 0 {
		return "-"
	}
	return strconv.FormatInt(100*n/of, 10) + "%"
}
