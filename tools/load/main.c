/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* kvsteer-load: sends LLM request workloads and measures the answers. */
#include "load/options.h"
#include "load/run.h"

int main(int argc, char **argv)
{
	struct load_options o;
	int rc = load_options_parse(&o, argc, argv, stdout, stderr);

	if (!rc)
		rc = load_run(&o);
	else
		rc = rc > 0 ? 0 : 2;
	load_options_free(&o);
	return rc;
}
