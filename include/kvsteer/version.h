/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#ifndef KVSTEER_VERSION_H
#define KVSTEER_VERSION_H
#define KVSTEER_VERSION "0.1.0"
#endif
