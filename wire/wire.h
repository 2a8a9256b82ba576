/* SPDX-License-Identifier: Apache-2.0
 *
 * wire/: what crosses the boundary between a program and the broker. Both sides include it, and nothing else of each
 * other.
 *
 * What is here
 *   message.h  requests and replies over the socket: who somebody is, memory, images, kernels. Rare, and waited for
 *   area.h     the memory that a client shares with the broker: rings of its lanes, how far each has come, staging
 *   record.h   what lies in those rings: launches, copies, memsets, waits
 *
 * How a launch crosses. A thread of the program puts a record into the ring of its lane and, if the broker says that it
 * sleeps, wakes it. The broker's device thread copies the record out, checks the copy, and gives it to its engine. When
 * the work is known to be complete it stores the count of complete records, which the program reads. No system call
 * is made while the other side is awake.
 *
 * Invariants
 *  1. The broker trusts no number in the area or in a message: whatever a client writes there ends at worst its own
 *     connection. Records are copied out before they are looked at.
 *  2. The client trusts the broker, as it trusts its driver, but not that it lives: every wait has a limit.
 *  3. Sizes are fixed, so both sides check them once; a version that differs is refused at the first message.
 *  4. The area cannot shrink under the broker: it makes the memory and seals its size.
 *
 * It may not know CUDA beyond the types of driver/, call a driver, or start a thread. It depends on base and driver.
 */
#ifndef COISSUE_WIRE_WIRE_H
#define COISSUE_WIRE_WIRE_H

enum {
    WIRE_VERSION = 1, /* raised with every change of a structure or of a meaning in this folder */
    WIRE_LANES = 32,  /* of one client; what it has more stays at home */
};

#define WIRE_MAGIC UINT64_C(0x6577692d65757373) /* "ssue-iwe" read as bytes: any constant would do */

#endif
