/* SPDX-License-Identifier: Apache-2.0
 *
 * broker/: one process that makes the launches of many, for one device and one user.
 *
 * What is here
 *   main.c     the program coissue-broker, which `coissue serve` starts
 *   keeper.c   the parent, which starts a worker and starts another when that one ends by a fault
 *   worker.c   the worker: device, engine, socket; accepts clients
 *   session.c  a client: its thread, its requests, its end
 *   memory.c   memory that a client shares
 *   code.c     code and kernels, by content, for all clients
 *   feed.c     from the clients' rings into lanes of the engine, and counts of what is complete back
 *   check.c    is a record of a client fit to be issued
 *
 * Threads. The main thread accepts. Each client has a thread, which answers its requests and cleans up behind it; it
 * makes driver calls that may take long. The engine's device thread takes records, issues them and publishes counts.
 * `worker->lock` guards the list of sessions and what the device thread reads of them; nobody holds it over a driver
 * call or a wait.
 *
 * Invariants
 *  1. A client can end its own connection, by malformed records or messages or by dying, and nothing else of the
 * broker.
 *  2. A record is issued only after everything in its copy was checked, with memory, functions and lanes of the same
 *     client.
 *  3. A record counts as taken before it can be issued, and as complete after the device said so.
 *  4. Memory of a client is unmapped after all that was taken from its rings is complete.
 *  5. A fault of a kernel ends the worker: the context is lost. Clients with work in flight get the fault's error,
 *     because nobody can say whose kernel it was; the others go on, and come to the next worker.
 *
 * It prints on stderr only. It depends on base, driver, wire, trace, scheduler, coalesce and engine.
 */
#ifndef COISSUE_BROKER_BROKER_H
#define COISSUE_BROKER_BROKER_H

#include "base/config.h"

enum { BROKER_FAULT_STATUS = 75 }; /* of a worker whose context is lost: another may do better (EX_TEMPFAIL) */

struct broker_options {
    int device;         /* ordinal */
    const char *folder; /* of the socket; empty: the user's */
    struct config config;
};

/* Serves until SIGTERM or SIGINT, in this process. Returns the exit status. */
int broker_work(const struct broker_options *options);

/* The same in a child, which is replaced when it ends by a fault or a signal. */
int broker_keep(const struct broker_options *options);

#endif
