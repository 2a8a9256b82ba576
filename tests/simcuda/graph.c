/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs. A node is a task and the nodes that it depends on. An executable graph is a copy of the graph. Launching one
 * makes an operation of each node, with edges as in the graph, between a first and a last operation that stand in the
 * launch stream; branches run at the same time.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_user { /* CUuserObject */
    void *data;
    CUhostFn destroy;
    unsigned refs;
};

/* ---- building ---- */

struct sim_graph *sim_graph_create(void)
{
    return sim_object_create(SIM_GRAPH, sizeof(struct sim_graph));
}

static void user_release(struct sim_user *user, unsigned count)
{
    struct sim_thread *thread = sim_thread();
    bool inside = thread->in_host_function;

    user->refs -= count < user->refs ? count : user->refs;
    if (user->refs)
        return;
    sim_unlock();
    thread->in_host_function = true; /* a destructor may call nothing of CUDA */
    user->destroy(user->data);
    thread->in_host_function = inside;
    sim_lock();
    sim_object_destroy(user);
}

static void node_free(struct sim_node *node)
{
    sim_task_finish(&node->task);
    free(node->deps);
    sim_object_destroy(node);
}

void sim_graph_free(struct sim_graph *graph)
{
    if (!graph)
        return;
    for (size_t i = 0; i < graph->count; i++)
        node_free(graph->nodes[i]);
    for (size_t i = 0; i < graph->user_count; i++)
        user_release(graph->users[i], 1);
    free(graph->users);
    free(graph->nodes);
    sim_object_destroy(graph);
}

static CUresult add_dep(struct sim_node *node, struct sim_node *dep)
{
    for (size_t i = 0; i < node->dep_count; i++)
        if (node->deps[i] == dep)
            return CUDA_SUCCESS;
    if (node->dep_count == node->dep_room) {
        size_t room = node->dep_room ? node->dep_room * 2 : 4;
        struct sim_node **deps = realloc(node->deps, room * sizeof(struct sim_node *));

        if (!deps)
            return CUDA_ERROR_OUT_OF_MEMORY;
        node->deps = deps;
        node->dep_room = room;
    }
    node->deps[node->dep_count++] = dep;
    return CUDA_SUCCESS;
}

CUresult sim_graph_add(struct sim_graph *graph, struct sim_node *const *deps, size_t count, struct sim_task *task,
                       struct sim_node **out)
{
    struct sim_node *node;

    if (graph->count == graph->room) {
        size_t room = graph->room ? graph->room * 2 : 16;
        struct sim_node **nodes = realloc(graph->nodes, room * sizeof(struct sim_node *));

        if (!nodes)
            return CUDA_ERROR_OUT_OF_MEMORY;
        graph->nodes = nodes;
        graph->room = room;
    }
    node = sim_object_create(SIM_NODE, sizeof(*node));
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->graph = graph;
    for (size_t i = 0; i < count; i++) {
        if (add_dep(node, deps[i])) {
            free(node->deps);
            sim_object_destroy(node);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    node->task = *task;
    node->index = graph->count;
    graph->nodes[graph->count++] = node;
    *out = node;
    return CUDA_SUCCESS;
}

static void number_nodes(const struct sim_graph *graph)
{
    for (size_t i = 0; i < graph->count; i++)
        graph->nodes[i]->index = i;
}

struct sim_graph *sim_graph_clone(const struct sim_graph *graph)
{
    struct sim_graph *clone = sim_graph_create();

    if (!clone)
        return NULL;
    number_nodes(graph);
    for (size_t i = 0; i < graph->count; i++) {
        struct sim_task task;
        struct sim_node *node;

        if (sim_task_clone(&task, &graph->nodes[i]->task))
            goto fail;
        if (sim_graph_add(clone, NULL, 0, &task, &node)) {
            sim_task_finish(&task);
            goto fail;
        }
        node->original = graph->nodes[i];
        node->disabled = graph->nodes[i]->disabled;
    }
    for (size_t i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->dep_count; k++)
            if (add_dep(clone->nodes[i], clone->nodes[graph->nodes[i]->deps[k]->index]))
                goto fail;
    return clone;
fail:
    sim_graph_free(clone);
    return NULL;
}

/* ---- launching ---- */

/* One operation per node, two for a child graph; all between `first` and `last`. */
static CUresult submit(struct sim_graph *graph, struct sim_ctx *ctx, struct sim_op *first, struct sim_op *last)
{
    size_t count = graph->count;
    struct sim_op **begin = calloc(count + 1, sizeof(*begin)), **end = calloc(count + 1, sizeof(*end));
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

    if (!begin || !end)
        goto out;
    number_nodes(graph);
    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = graph->nodes[i];
        struct sim_task task = {.type = SIM_TASK_EMPTY};

        if (!node->disabled && node->task.type != SIM_TASK_GRAPH && sim_task_clone(&task, &node->task))
            goto out;
        begin[i] = sim_op_from_task(ctx, &task);
        if (!begin[i])
            goto out;
        if (node->task.type == SIM_TASK_GRAPH && !node->disabled) {
            end[i] = sim_op_create(sizeof(struct sim_op), ctx, NULL);
            if (!end[i] || submit(node->task.child.graph, ctx, begin[i], end[i]))
                goto out;
            sim_op_follow(end[i], begin[i]);
        } else {
            end[i] = sim_op_ref(begin[i]);
        }
    }
    for (size_t i = 0; i < count; i++) {
        const struct sim_node *node = graph->nodes[i];

        sim_op_follow(begin[i], first);
        for (size_t k = 0; k < node->dep_count; k++)
            sim_op_follow(begin[i], end[node->deps[k]->index]);
        if ((node->task.type == SIM_TASK_WAIT_EVENT || node->task.type == SIM_TASK_RECORD_EVENT) && !node->disabled &&
            sim_object_is(node->task.event.event, SIM_EVENT)) {
            if (node->task.type == SIM_TASK_WAIT_EVENT)
                sim_op_follow(begin[i], node->task.event.event->record);
            else
                sim_event_set_record(node->task.event.event, begin[i]);
        }
        sim_op_follow(last, end[i]);
    }
    result = CUDA_SUCCESS;
out:
    /* Arm also what was made before an error: it must end. Nothing runs before `first` is armed. */
    for (size_t i = 0; i < count && begin && end; i++) {
        if (end[i] && end[i] != begin[i])
            sim_op_arm(end[i]);
        if (begin[i])
            sim_op_arm(begin[i]);
        sim_op_unref(end[i]);
        sim_op_unref(begin[i]);
    }
    free(begin);
    free(end);
    return result;
}

static CUresult exec_get(CUgraphExec handle, struct sim_graph_exec **exec)
{
    if (!sim_object_is(handle, SIM_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    *exec = (struct sim_graph_exec *)handle;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    struct sim_graph_exec *exec;
    struct sim_stream *stream;
    struct sim_op *first, *last;
    CUresult result;

    sim_time_launch_cost();
    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (!result)
        result = exec_get(hGraphExec, &exec);
    if (result)
        return result;
    sim_note("nodes=%zu stream=%llu", exec->graph->count, (unsigned long long)stream->id);
    if (stream->capture) {
        struct sim_task task = {.type = SIM_TASK_GRAPH, .child = {sim_graph_clone(exec->graph)}};

        if (!task.child.graph)
            return CUDA_ERROR_OUT_OF_MEMORY;
        return sim_enqueue(stream, &task, NULL);
    }
    first = sim_op_create(sizeof(*first), stream->ctx, NULL);
    last = sim_op_create(sizeof(*last), stream->ctx, NULL);
    if (!first || !last) {
        sim_op_unref(first);
        sim_op_unref(last);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_stream_order(stream, first);
    sim_op_follow(first, exec->last);
    sim_op_follow(last, first);
    result = submit(exec->graph, stream->ctx, first, last);
    sim_stream_set_last(stream, last);
    sim_op_unref(exec->last);
    exec->last = sim_op_ref(last);
    sim_op_arm(last);
    sim_op_arm(first);
    sim_op_unref(first);
    sim_op_unref(last);
    return result;
}

CUresult sim_cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    struct sim_task task = {.type = SIM_TASK_EMPTY};
    struct sim_graph_exec *exec;
    struct sim_stream *stream;
    CUresult result;

    SIM_GUARD;
    result = sim_stream_for_work(hStream, &stream);
    if (!result)
        result = exec_get(hGraphExec, &exec);
    return result ? result : sim_enqueue(stream, &task, NULL);
}

/* ---- graphs and executables ---- */

static CUresult graph_get(CUgraph handle, struct sim_graph **graph)
{
    if (!sim_object_is(handle, SIM_GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    *graph = (struct sim_graph *)handle;
    return CUDA_SUCCESS;
}

static CUresult node_get(CUgraphNode handle, enum sim_task_type type, struct sim_node **node)
{
    if (!sim_object_is(handle, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    *node = (struct sim_node *)handle;
    return (*node)->task.type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    struct sim_graph *graph;

    if (!phGraph || flags)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    graph = sim_graph_create();
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phGraph = (CUgraph)graph;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    struct sim_graph *graph, *clone;
    CUresult result;

    SIM_GUARD;
    result = graph_get(originalGraph, &graph);
    if (result || !phGraphClone)
        return CUDA_ERROR_INVALID_VALUE;
    clone = sim_graph_clone(graph);
    if (!clone)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phGraphClone = (CUgraph)clone;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph)
{
    struct sim_graph *graph;

    SIM_GUARD;
    if (!phNode || graph_get(hClonedGraph, &graph))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < graph->count; i++) {
        if (graph->nodes[i]->original == (struct sim_node *)hOriginalNode) {
            *phNode = (CUgraphNode)graph->nodes[i];
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphDestroy(CUgraph hGraph)
{
    struct sim_graph *graph;
    CUresult result;

    SIM_GUARD;
    result = graph_get(hGraph, &graph);
    if (result || graph->is_child)
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph_free(graph);
    return CUDA_SUCCESS;
}

/* A cycle can come from cuGraphAddDependencies; a graph that has one cannot run. */
static bool acyclic(const struct sim_graph *graph)
{
    size_t *missing = calloc(graph->count + 1, sizeof(*missing)), done = 0;
    bool progress = true;

    if (!missing)
        return false;
    number_nodes(graph);
    for (size_t i = 0; i < graph->count; i++)
        missing[i] = graph->nodes[i]->dep_count;
    while (progress) {
        progress = false;
        for (size_t i = 0; i < graph->count; i++) {
            if (missing[i])
                continue;
            missing[i] = SIZE_MAX;
            done++;
            progress = true;
            for (size_t k = 0; k < graph->count; k++)
                for (size_t d = 0; d < graph->nodes[k]->dep_count; d++)
                    if (graph->nodes[k]->deps[d]->index == i)
                        missing[k]--;
        }
    }
    free(missing);
    return done == graph->count;
}

static CUresult instantiate(CUgraphExec *phGraphExec, CUgraph hGraph, uint64_t flags)
{
    struct sim_graph_exec *exec;
    struct sim_graph *graph;
    CUresult result;

    SIM_GUARD;
    result = graph_get(hGraph, &graph);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    if (!phGraphExec || (flags & ~15u))
        return CUDA_ERROR_INVALID_VALUE;
    if (graph->count > 1 && !acyclic(graph))
        return CUDA_ERROR_INVALID_VALUE;
    exec = sim_object_create(SIM_EXEC, sizeof(*exec));
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->flags = flags;
    exec->graph = sim_graph_clone(graph);
    if (!exec->graph) {
        sim_object_destroy(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (size_t i = 0; i < graph->user_count; i++) {
        struct sim_user **users = realloc(exec->graph->users, (i + 1) * sizeof(struct sim_user *));

        if (!users)
            break;
        exec->graph->users = users;
        users[i] = graph->users[i];
        users[i]->refs++;
        exec->graph->user_count = i + 1;
    }
    *phGraphExec = (CUgraphExec)exec;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    return instantiate(phGraphExec, hGraph, flags);
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                   size_t bufferSize)
{
    if (phErrorNode)
        *phErrorNode = NULL;
    if (logBuffer && bufferSize)
        *logBuffer = '\0';
    return instantiate(phGraphExec, hGraph, 0);
}

CUresult sim_cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode, char *logBuffer,
                                size_t bufferSize)
{
    return sim_cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    enum { UPLOAD = 2 };
    CUresult result;

    if (!instantiateParams)
        return CUDA_ERROR_INVALID_VALUE;
    result = instantiate(phGraphExec, hGraph, instantiateParams->flags);
    instantiateParams->hErrNode_out = NULL;
    instantiateParams->result_out = result ? 1 : 0; /* CUDA_GRAPH_INSTANTIATE_SUCCESS or _ERROR */
    if (!result && (instantiateParams->flags & UPLOAD))
        result = sim_cuGraphUpload(*phGraphExec, instantiateParams->hUploadStream);
    return result;
}

CUresult sim_cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    struct sim_graph_exec *exec;

    SIM_GUARD;
    if (!flags || exec_get(hGraphExec, &exec))
        return CUDA_ERROR_INVALID_VALUE;
    *flags = exec->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    struct sim_graph_exec *exec;
    CUresult result;

    SIM_GUARD;
    result = exec_get(hGraphExec, &exec);
    if (!result)
        result = sim_capture_unsafe();
    if (result)
        return result;
    sim_op_unref(exec->last); /* launches in flight have their own copies of the tasks */
    sim_graph_free(exec->graph);
    sim_object_destroy(exec);
    return CUDA_SUCCESS;
}

/* ---- nodes: what they are ---- */

static CUresult list_nodes(struct sim_node **from, size_t have, CUgraphNode *nodes, size_t *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!nodes) {
        *count = have;
        return CUDA_SUCCESS;
    }
    for (size_t i = 0; i < *count; i++)
        nodes[i] = i < have ? (CUgraphNode)from[i] : NULL;
    if (*count > have)
        *count = have;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    struct sim_graph *graph;

    SIM_GUARD;
    if (graph_get(hGraph, &graph))
        return CUDA_ERROR_INVALID_VALUE;
    return list_nodes(graph->nodes, graph->count, nodes, numNodes);
}

CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    struct sim_graph *graph;
    struct sim_node **roots;
    size_t count = 0;
    CUresult result;

    SIM_GUARD;
    if (graph_get(hGraph, &graph))
        return CUDA_ERROR_INVALID_VALUE;
    roots = malloc((graph->count + 1) * sizeof(struct sim_node *));
    if (!roots)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->count; i++)
        if (!graph->nodes[i]->dep_count)
            roots[count++] = graph->nodes[i];
    result = list_nodes(roots, count, rootNodes, numRootNodes);
    free(roots);
    return result;
}

CUresult sim_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData,
                                size_t *numEdges)
{
    struct sim_graph *graph;
    size_t count = 0;

    SIM_GUARD;
    if (!numEdges || graph_get(hGraph, &graph) || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < graph->count; i++) {
        for (size_t k = 0; k < graph->nodes[i]->dep_count; k++, count++) {
            if (!from || count >= *numEdges)
                continue;
            from[count] = (CUgraphNode)graph->nodes[i]->deps[k];
            to[count] = (CUgraphNode)graph->nodes[i];
            if (edgeData)
                memset(&edgeData[count], 0, sizeof(*edgeData));
        }
    }
    if (!from || *numEdges > count)
        *numEdges = count;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    return sim_cuGraphGetEdges_v2(hGraph, from, to, NULL, numEdges);
}

CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies, CUgraphEdgeData *edgeData,
                                           size_t *numDependencies)
{
    struct sim_node *node = (struct sim_node *)hNode;

    SIM_GUARD;
    if (!sim_object_is(hNode, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    if (edgeData && numDependencies)
        memset(edgeData, 0, *numDependencies * sizeof(*edgeData));
    return list_nodes(node->deps, node->dep_count, dependencies, numDependencies);
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies, size_t *numDependencies)
{
    return sim_cuGraphNodeGetDependencies_v2(hNode, dependencies, NULL, numDependencies);
}

CUresult sim_cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes, CUgraphEdgeData *edgeData,
                                             size_t *numDependentNodes)
{
    struct sim_node *node = (struct sim_node *)hNode, **found;
    struct sim_graph *graph;
    size_t count = 0;
    CUresult result;

    SIM_GUARD;
    if (!sim_object_is(hNode, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    graph = node->graph;
    found = malloc((graph->count + 1) * sizeof(struct sim_node *));
    if (!found)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->dep_count; k++)
            if (graph->nodes[i]->deps[k] == node)
                found[count++] = graph->nodes[i];
    if (edgeData && numDependentNodes)
        memset(edgeData, 0, *numDependentNodes * sizeof(*edgeData));
    result = list_nodes(found, count, dependentNodes, numDependentNodes);
    free(found);
    return result;
}

CUresult sim_cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode *dependentNodes, size_t *numDependentNodes)
{
    return sim_cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, NULL, numDependentNodes);
}

CUresult sim_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    SIM_GUARD;
    if (!type || !sim_object_is(hNode, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    *type = (CUgraphNodeType)((struct sim_node *)hNode)->task.type;
    return CUDA_SUCCESS;
}

/* ---- nodes: adding and changing ---- */

static CUresult add_node(CUgraphNode *out, CUgraph hGraph, const CUgraphNode *deps, size_t count, struct sim_task *task)
{
    struct sim_graph *graph;
    struct sim_node *node;
    CUresult result = CUDA_ERROR_INVALID_VALUE;

    if (!out || graph_get(hGraph, &graph) || (count && !deps))
        goto fail;
    for (size_t i = 0; i < count; i++)
        if (!sim_object_is(deps[i], SIM_NODE) || ((struct sim_node *)deps[i])->graph != graph)
            goto fail;
    result = sim_graph_add(graph, (struct sim_node *const *)deps, count, task, &node);
    if (result)
        goto fail;
    *out = (CUgraphNode)node;
    return CUDA_SUCCESS;
fail:
    sim_task_finish(task);
    return result;
}

static CUresult kernel_task(struct sim_task *task, const CUDA_KERNEL_NODE_PARAMS *p, bool with_kern)
{
    const unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ};
    const unsigned block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};
    CUfunction handle = p->func || !with_kern ? p->func : (CUfunction)p->kern;
    struct sim_function *function;
    CUresult result = sim_function_get(handle, &function);

    return result ? result
                  : sim_kernel_task(task, function, grid, block, p->sharedMemBytes, p->kernelParams, p->extra, NULL, 0);
}

/* The first form of the structure ends before `kern`. */
static CUDA_KERNEL_NODE_PARAMS from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS params = {0};

    memcpy(&params, p, offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
    return params;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                     size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct sim_task task;
    CUresult result;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = kernel_task(&task, nodeParams, true);
    return result ? result : add_node(phGraphNode, hGraph, dependencies, numDependencies, &task);
}

CUresult sim_cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    params = from_v1(nodeParams);
    return sim_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &params);
}

static void describe_kernel(const struct sim_task *task, CUDA_KERNEL_NODE_PARAMS *p, bool second)
{
    CUDA_KERNEL_NODE_PARAMS params = {
        .func = (CUfunction)task->kernel.function,
        .gridDimX = task->kernel.grid[0],
        .gridDimY = task->kernel.grid[1],
        .gridDimZ = task->kernel.grid[2],
        .blockDimX = task->kernel.block[0],
        .blockDimY = task->kernel.block[1],
        .blockDimZ = task->kernel.block[2],
        .sharedMemBytes = task->kernel.shared,
        .kernelParams = task->kernel.pointers,
        .ctx = (CUcontext)task->kernel.function->module->ctx,
    };

    memcpy(p, &params, second ? sizeof(params) : offsetof(CUDA_KERNEL_NODE_PARAMS, kern));
}

CUresult sim_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || node_get(hNode, SIM_TASK_KERNEL, &node))
        return CUDA_ERROR_INVALID_VALUE;
    describe_kernel(&node->task, nodeParams, true);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || node_get(hNode, SIM_TASK_KERNEL, &node))
        return CUDA_ERROR_INVALID_VALUE;
    describe_kernel(&node->task, (CUDA_KERNEL_NODE_PARAMS *)nodeParams, false);
    return CUDA_SUCCESS;
}

static void replace_task(struct sim_node *node, struct sim_task *task)
{
    sim_task_finish(&node->task);
    node->task = *task;
}

static CUresult set_kernel(struct sim_node *node, const CUDA_KERNEL_NODE_PARAMS *params)
{
    struct sim_task task;
    CUresult result = kernel_task(&task, params, true);

    if (result)
        return result;
    /* Attributes belong to the node, not to its parameters. */
    free(task.kernel.attributes);
    task.kernel.attributes = node->task.kernel.attributes;
    task.kernel.attribute_count = node->task.kernel.attribute_count;
    task.kernel.cooperative = node->task.kernel.cooperative;
    memcpy(task.kernel.cluster, node->task.kernel.cluster, sizeof(task.kernel.cluster));
    node->task.kernel.attributes = NULL;
    replace_task(node, &task);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || node_get(hNode, SIM_TASK_KERNEL, &node))
        return CUDA_ERROR_INVALID_VALUE;
    return set_kernel(node, nodeParams);
}

CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    params = from_v1(nodeParams);
    return sim_cuGraphKernelNodeSetParams_v2(hNode, &params);
}

/* The node of an executable that was made from this one. */
static CUresult exec_node(CUgraphExec handle, CUgraphNode original, enum sim_task_type type, struct sim_node **node)
{
    struct sim_graph_exec *exec;

    if (exec_get(handle, &exec) || !sim_object_is(original, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < exec->graph->count; i++) {
        if (exec->graph->nodes[i]->original != (struct sim_node *)original)
            continue;
        *node = exec->graph->nodes[i];
        return (*node)->task.type == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || exec_node(hGraphExec, hNode, SIM_TASK_KERNEL, &node))
        return CUDA_ERROR_INVALID_VALUE;
    return set_kernel(node, nodeParams);
}

CUresult sim_cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CUDA_KERNEL_NODE_PARAMS params;

    if (!nodeParams)
        return CUDA_ERROR_INVALID_VALUE;
    params = from_v1(nodeParams);
    return sim_cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &params);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    struct sim_task task;
    CUresult result;

    (void)ctx;
    SIM_GUARD;
    result = sim_copy_task(&task, copyParams);
    return result ? result : add_node(phGraphNode, hGraph, dependencies, numDependencies, &task);
}

CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || node_get(hNode, SIM_TASK_COPY, &node))
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = node->task.copy.params;
    return CUDA_SUCCESS;
}

static CUresult set_copy(struct sim_node *node, const CUDA_MEMCPY3D *params)
{
    struct sim_task task;
    CUresult result = sim_copy_task(&task, params);

    if (!result)
        replace_task(node, &task);
    return result;
}

CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    return node_get(hNode, SIM_TASK_COPY, &node) ? CUDA_ERROR_INVALID_VALUE : set_copy(node, nodeParams);
}

CUresult sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D *copyParams,
                                            CUcontext ctx)
{
    struct sim_node *node;

    (void)ctx;
    SIM_GUARD;
    return exec_node(hGraphExec, hNode, SIM_TASK_COPY, &node) ? CUDA_ERROR_INVALID_VALUE : set_copy(node, copyParams);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                  size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    struct sim_task task;
    CUresult result;

    (void)ctx;
    SIM_GUARD;
    result = memsetParams ? sim_set_task(&task, memsetParams) : CUDA_ERROR_INVALID_VALUE;
    return result ? result : add_node(phGraphNode, hGraph, dependencies, numDependencies, &task);
}

CUresult sim_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || node_get(hNode, SIM_TASK_SET, &node))
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = (CUDA_MEMSET_NODE_PARAMS){.dst = node->task.set.dst,
                                            .pitch = node->task.set.pitch,
                                            .value = node->task.set.value,
                                            .elementSize = node->task.set.element,
                                            .width = node->task.set.width,
                                            .height = node->task.set.height};
    return CUDA_SUCCESS;
}

static CUresult set_set(struct sim_node *node, const CUDA_MEMSET_NODE_PARAMS *params)
{
    struct sim_task task;
    CUresult result = params ? sim_set_task(&task, params) : CUDA_ERROR_INVALID_VALUE;

    if (!result)
        replace_task(node, &task);
    return result;
}

CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    return node_get(hNode, SIM_TASK_SET, &node) ? CUDA_ERROR_INVALID_VALUE : set_set(node, nodeParams);
}

CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    struct sim_node *node;

    (void)ctx;
    SIM_GUARD;
    return exec_node(hGraphExec, hNode, SIM_TASK_SET, &node) ? CUDA_ERROR_INVALID_VALUE : set_set(node, memsetParams);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                size_t numDependencies, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sim_task task = {.type = SIM_TASK_HOST};

    if (!nodeParams || !nodeParams->fn)
        return CUDA_ERROR_INVALID_VALUE;
    task.host.fn = nodeParams->fn;
    task.host.data = nodeParams->userData;
    SIM_GUARD;
    return add_node(phGraphNode, hGraph, dependencies, numDependencies, &task);
}

CUresult sim_cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!nodeParams || node_get(hNode, SIM_TASK_HOST, &node))
        return CUDA_ERROR_INVALID_VALUE;
    *nodeParams = (CUDA_HOST_NODE_PARAMS){node->task.host.fn, node->task.host.data};
    return CUDA_SUCCESS;
}

static CUresult set_host(struct sim_node *node, const CUDA_HOST_NODE_PARAMS *params)
{
    if (!params || !params->fn)
        return CUDA_ERROR_INVALID_VALUE;
    node->task.host.fn = params->fn;
    node->task.host.data = params->userData;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    return node_get(hNode, SIM_TASK_HOST, &node) ? CUDA_ERROR_INVALID_VALUE : set_host(node, nodeParams);
}

CUresult sim_cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                          const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    struct sim_node *node;

    SIM_GUARD;
    return exec_node(hGraphExec, hNode, SIM_TASK_HOST, &node) ? CUDA_ERROR_INVALID_VALUE : set_host(node, nodeParams);
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                 size_t numDependencies)
{
    struct sim_task task = {.type = SIM_TASK_EMPTY};

    SIM_GUARD;
    return add_node(phGraphNode, hGraph, dependencies, numDependencies, &task);
}

CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                      size_t numDependencies, CUgraph childGraph)
{
    struct sim_task task = {.type = SIM_TASK_GRAPH};
    struct sim_graph *child;

    SIM_GUARD;
    if (graph_get(childGraph, &child))
        return CUDA_ERROR_INVALID_VALUE;
    task.child.graph = sim_graph_clone(child);
    if (!task.child.graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    task.child.graph->is_child = true;
    return add_node(phGraphNode, hGraph, dependencies, numDependencies, &task);
}

CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!phGraph || node_get(hNode, SIM_TASK_GRAPH, &node))
        return CUDA_ERROR_INVALID_VALUE;
    *phGraph = (CUgraph)node->task.child.graph;
    return CUDA_SUCCESS;
}

static CUresult add_event_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *deps, size_t count, CUevent handle,
                               enum sim_task_type type)
{
    struct sim_task task = {.type = type};
    CUresult result;

    SIM_GUARD;
    result = sim_event_get(handle, &task.event.event);
    return result ? result : add_node(out, graph, deps, count, &task);
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                       size_t numDependencies, CUevent event)
{
    return add_event_node(phGraphNode, hGraph, dependencies, numDependencies, event, SIM_TASK_RECORD_EVENT);
}

CUresult sim_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                                     size_t numDependencies, CUevent event)
{
    return add_event_node(phGraphNode, hGraph, dependencies, numDependencies, event, SIM_TASK_WAIT_EVENT);
}

static CUresult node_event(CUgraphNode handle, enum sim_task_type type, CUevent *event)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!event || node_get(handle, type, &node))
        return CUDA_ERROR_INVALID_VALUE;
    *event = (CUevent)node->task.event.event;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return node_event(hNode, SIM_TASK_RECORD_EVENT, event_out);
}

CUresult sim_cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return node_event(hNode, SIM_TASK_WAIT_EVENT, event_out);
}

/* CUgraphNodeParams in cuda.h: a type and a union of 232 bytes. */
struct any_params {
    CUgraphNodeType type;
    int reserved[3];
    union {
        CUDA_KERNEL_NODE_PARAMS kernel;
        struct {
            int flags, reserved;
            CUcontext ctx;
            CUDA_MEMCPY3D copy;
        } copy;
        CUDA_MEMSET_NODE_PARAMS set;
        CUDA_HOST_NODE_PARAMS host;
        CUgraph child;
        CUevent event;
        long long bytes[29];
    };
};

CUresult sim_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                               const CUgraphEdgeData *dependencyData, size_t numDependencies,
                               CUgraphNodeParams *nodeParams)
{
    const struct any_params *p = (const struct any_params *)nodeParams;
    static const char key;

    (void)dependencyData;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case SIM_TASK_KERNEL:
        return sim_cuGraphAddKernelNode_v2(phGraphNode, hGraph, dependencies, numDependencies, &p->kernel);
    case SIM_TASK_COPY:
        return sim_cuGraphAddMemcpyNode(phGraphNode, hGraph, dependencies, numDependencies, &p->copy.copy, p->copy.ctx);
    case SIM_TASK_SET:
        return sim_cuGraphAddMemsetNode(phGraphNode, hGraph, dependencies, numDependencies, &p->set, NULL);
    case SIM_TASK_HOST:
        return sim_cuGraphAddHostNode(phGraphNode, hGraph, dependencies, numDependencies, &p->host);
    case SIM_TASK_GRAPH:
        return sim_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies, numDependencies, p->child);
    case SIM_TASK_EMPTY:
        return sim_cuGraphAddEmptyNode(phGraphNode, hGraph, dependencies, numDependencies);
    case SIM_TASK_WAIT_EVENT:
        return sim_cuGraphAddEventWaitNode(phGraphNode, hGraph, dependencies, numDependencies, p->event);
    case SIM_TASK_RECORD_EVENT:
        return sim_cuGraphAddEventRecordNode(phGraphNode, hGraph, dependencies, numDependencies, p->event);
    default:
        sim_loud(&key, "cuGraphAddNode: node type %u is not implemented", p->type);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult sim_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                            size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    return sim_cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, NULL, numDependencies, nodeParams);
}

CUresult sim_cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    const struct any_params *p = (const struct any_params *)nodeParams;

    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case SIM_TASK_KERNEL:
        return sim_cuGraphExecKernelNodeSetParams_v2(hGraphExec, hNode, &p->kernel);
    case SIM_TASK_COPY:
        return sim_cuGraphExecMemcpyNodeSetParams(hGraphExec, hNode, &p->copy.copy, p->copy.ctx);
    case SIM_TASK_SET:
        return sim_cuGraphExecMemsetNodeSetParams(hGraphExec, hNode, &p->set, NULL);
    case SIM_TASK_HOST:
        return sim_cuGraphExecHostNodeSetParams(hGraphExec, hNode, &p->host);
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult sim_cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    struct sim_graph_exec *exec;

    SIM_GUARD;
    if (exec_get(hGraphExec, &exec))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < exec->graph->count; i++) {
        struct sim_node *node = exec->graph->nodes[i];

        if (node->original != (struct sim_node *)hNode || node->task.type > SIM_TASK_SET)
            continue;
        node->disabled = !isEnabled;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    struct sim_graph_exec *exec;

    SIM_GUARD;
    if (!isEnabled || exec_get(hGraphExec, &exec))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < exec->graph->count; i++) {
        if (exec->graph->nodes[i]->original != (struct sim_node *)hNode)
            continue;
        *isEnabled = !exec->graph->nodes[i]->disabled;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static CUresult change_dependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t count,
                                    bool add)
{
    struct sim_graph *graph;

    SIM_GUARD;
    if (graph_get(hGraph, &graph) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        struct sim_node *a = (struct sim_node *)from[i], *b = (struct sim_node *)to[i];
        size_t k = 0;

        if (!sim_object_is(from[i], SIM_NODE) || !sim_object_is(to[i], SIM_NODE) || a->graph != graph ||
            b->graph != graph || a == b)
            return CUDA_ERROR_INVALID_VALUE;
        while (k < b->dep_count && b->deps[k] != a)
            k++;
        if (add == (k < b->dep_count))
            return CUDA_ERROR_INVALID_VALUE; /* there already, or not there */
        if (add) {
            if (add_dep(b, a))
                return CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            b->deps[k] = b->deps[--b->dep_count];
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                       const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    (void)edgeData;
    return change_dependencies(hGraph, from, to, numDependencies, true);
}

CUresult sim_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                    size_t numDependencies)
{
    return change_dependencies(hGraph, from, to, numDependencies, true);
}

CUresult sim_cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                          const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    (void)edgeData;
    return change_dependencies(hGraph, from, to, numDependencies, false);
}

CUresult sim_cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                       size_t numDependencies)
{
    return change_dependencies(hGraph, from, to, numDependencies, false);
}

CUresult sim_cuGraphDestroyNode(CUgraphNode hNode)
{
    struct sim_node *node = (struct sim_node *)hNode;
    struct sim_graph *graph;

    SIM_GUARD;
    if (!sim_object_is(hNode, SIM_NODE))
        return CUDA_ERROR_INVALID_VALUE;
    graph = node->graph;
    number_nodes(graph);
    memmove(&graph->nodes[node->index], &graph->nodes[node->index + 1],
            (graph->count - node->index - 1) * sizeof(struct sim_node *));
    graph->count--;
    for (size_t i = 0; i < graph->count; i++)
        for (size_t k = 0; k < graph->nodes[i]->dep_count; k++)
            if (graph->nodes[i]->deps[k] == node)
                graph->nodes[i]->deps[k--] = graph->nodes[i]->deps[--graph->nodes[i]->dep_count];
    node_free(node);
    return CUDA_SUCCESS;
}

/* ---- attributes of kernel nodes ---- */

CUresult sim_cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue *value_out)
{
    struct sim_node *node;

    SIM_GUARD;
    if (!value_out || node_get(hNode, SIM_TASK_KERNEL, &node))
        return CUDA_ERROR_INVALID_VALUE;
    memset(value_out, 0, sizeof(*value_out));
    for (unsigned i = 0; i < node->task.kernel.attribute_count; i++)
        if (node->task.kernel.attributes[i].id == attr)
            *value_out = node->task.kernel.attributes[i].value;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                           const CUkernelNodeAttrValue *value)
{
    CUlaunchAttribute *attributes;
    struct sim_node *node;
    unsigned count;

    SIM_GUARD;
    if (!value || node_get(hNode, SIM_TASK_KERNEL, &node))
        return CUDA_ERROR_INVALID_VALUE;
    count = node->task.kernel.attribute_count;
    for (unsigned i = 0; i < count; i++) {
        if (node->task.kernel.attributes[i].id == attr) {
            node->task.kernel.attributes[i].value = *value;
            return CUDA_SUCCESS;
        }
    }
    attributes = realloc(node->task.kernel.attributes, (count + 1) * sizeof(*attributes));
    if (!attributes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    attributes[count] = (CUlaunchAttribute){.id = attr, .value = *value};
    node->task.kernel.attributes = attributes;
    node->task.kernel.attribute_count = count + 1;
    return CUDA_SUCCESS;
}

/* ---- update ---- */

/* CUgraphExecUpdateResult in cuda.h */
enum { UPDATE_SUCCESS = 0, UPDATE_ERROR = 1, UPDATE_TOPOLOGY = 2, UPDATE_TYPE = 3, UPDATE_PARAMETERS = 5 };

static int compare(const struct sim_graph *old, const struct sim_graph *new, struct sim_node **where)
{
    *where = NULL;
    if (old->count != new->count)
        return UPDATE_TOPOLOGY;
    number_nodes(old);
    number_nodes(new);
    for (size_t i = 0; i < old->count; i++) {
        const struct sim_node *a = old->nodes[i], *b = new->nodes[i];

        *where = new->nodes[i];
        if (a->dep_count != b->dep_count)
            return UPDATE_TOPOLOGY;
        for (size_t k = 0; k < a->dep_count; k++)
            if (a->deps[k]->index != b->deps[k]->index)
                return UPDATE_TOPOLOGY;
        if (a->task.type != b->task.type)
            return UPDATE_TYPE;
    }
    *where = NULL;
    return UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec hGraphExec, CUgraph hGraph, int *why, struct sim_node **where)
{
    struct sim_graph_exec *exec;
    struct sim_graph *graph;

    *why = UPDATE_ERROR;
    *where = NULL;
    if (exec_get(hGraphExec, &exec) || graph_get(hGraph, &graph))
        return CUDA_ERROR_INVALID_VALUE;
    *why = compare(exec->graph, graph, where);
    if (*why)
        return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    for (size_t i = 0; i < graph->count; i++) {
        struct sim_task task;

        if (sim_task_clone(&task, &graph->nodes[i]->task))
            return CUDA_ERROR_OUT_OF_MEMORY;
        replace_task(exec->graph->nodes[i], &task);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)
{
    struct sim_node *where;
    CUresult result;
    int why;

    if (!resultInfo)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = update(hGraphExec, hGraph, &why, &where);
    *resultInfo =
        (CUgraphExecUpdateResultInfo){.result = (CUgraphExecUpdateResult)why, .errorNode = (CUgraphNode)where};
    return result;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                               CUgraphExecUpdateResult *updateResult_out)
{
    struct sim_node *where;
    CUresult result;
    int why;

    if (!updateResult_out)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    result = update(hGraphExec, hGraph, &why, &where);
    *updateResult_out = (CUgraphExecUpdateResult)why;
    if (hErrorNode_out)
        *hErrorNode_out = (CUgraphNode)where;
    return result;
}

/* ---- user objects ---- */

CUresult sim_cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
                                unsigned int flags)
{
    struct sim_user *user;

    if (!object_out || !destroy || !initialRefcount || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    SIM_GUARD;
    user = sim_object_create(SIM_USER_OBJECT, sizeof(*user));
    if (!user)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *user = (struct sim_user){ptr, destroy, initialRefcount};
    *object_out = (CUuserObject)user;
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SIM_GUARD;
    if (!count || !sim_object_is(object, SIM_USER_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    ((struct sim_user *)object)->refs += count;
    return CUDA_SUCCESS;
}

CUresult sim_cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SIM_GUARD;
    if (!count || !sim_object_is(object, SIM_USER_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    user_release((struct sim_user *)object, count);
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphRetainUserObject(CUgraph hGraph, CUuserObject object, unsigned int count, unsigned int flags)
{
    enum { MOVE = 1 };
    struct sim_graph *graph;
    struct sim_user **users;

    SIM_GUARD;
    if (!count || flags > MOVE || graph_get(hGraph, &graph) || !sim_object_is(object, SIM_USER_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    users = realloc(graph->users, (graph->user_count + count) * sizeof(struct sim_user *));
    if (!users)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->users = users;
    for (unsigned i = 0; i < count; i++)
        users[graph->user_count++] = (struct sim_user *)object;
    if (flags != MOVE)
        ((struct sim_user *)object)->refs += count;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphReleaseUserObject(CUgraph hGraph, CUuserObject object, unsigned int count)
{
    struct sim_graph *graph;

    SIM_GUARD;
    if (!count || graph_get(hGraph, &graph) || !sim_object_is(object, SIM_USER_OBJECT))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = graph->user_count; i-- > 0 && count;) {
        if (graph->users[i] != (struct sim_user *)object)
            continue;
        graph->users[i] = graph->users[--graph->user_count];
        user_release((struct sim_user *)object, 1);
        count--;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    struct sim_graph *graph;
    FILE *file;

    (void)flags;
    SIM_GUARD;
    if (!path || graph_get(hGraph, &graph))
        return CUDA_ERROR_INVALID_VALUE;
    file = fopen(path, "w");
    if (!file)
        return CUDA_ERROR_OPERATING_SYSTEM;
    number_nodes(graph);
    fprintf(file, "digraph {\n");
    for (size_t i = 0; i < graph->count; i++) {
        const struct sim_node *node = graph->nodes[i];

        fprintf(file, "  n%zu [label=\"%s %d\"];\n", i,
                node->task.type == SIM_TASK_KERNEL ? node->task.kernel.function->kernel->name : "node",
                (int)node->task.type);
        for (size_t k = 0; k < node->dep_count; k++)
            fprintf(file, "  n%zu -> n%zu;\n", node->deps[k]->index, i);
    }
    fprintf(file, "}\n");
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}
