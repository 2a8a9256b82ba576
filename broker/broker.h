/* SPDX-License-Identifier: Apache-2.0
 *
 * broker/: one process that makes the launches of many, for one device and one user.
 *
 * What is here
 *   main.c     the program coissue-broker, which `coissue serve` becomes
 *   worker.c   device, engine, socket; accepts clients
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
 *  5. After a fault of a kernel the context is lost, and a process does not get rid of one reliably: the program starts
 *     itself anew. Clients with work in flight get the fault's error, because nobody can say whose kernel it was; the
 *     others go on, and come back.
 *
 * It prints on stderr only. It depends on base, driver, wire, trace, scheduler, coalesce and engine.
 */
#ifndef COISSUE_BROKER_BROKER_H
#define COISSUE_BROKER_BROKER_H

#include "base/config.h"

enum { BROKER_AGAIN = -1 }; /* the context is lost: a new process image may do better */

struct broker_options {
    int device;         /* ordinal */
    const char *folder; /* of the socket; empty: the user's */
    struct config config;
};

/*
 * Serves until SIGTERM, SIGINT or SIGHUP. Returns the exit status, or BROKER_AGAIN. Threads may still be inside the
 * driver: leave by _exit or exec.
 */
int broker_work(const struct broker_options *options);

#endif
